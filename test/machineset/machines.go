// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machineset plays the controllers that Machines have in a real cluster: Machines
// creates Machines and gives them Nodes, as the provider of a cloud does, and Set replaces
// those that are deleted, as the controller of a MachineSet does.
package machineset

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// Finalizer keeps a Machine until its instance is gone.
const Finalizer = "test.nhc-controller.io/instance"

// ClusterName is the Cluster of all Machines of Cluster API.
const ClusterName = "this"

// Machines are the Machines of one namespace and their Nodes. All fields are required.
type Machines struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	// Resource is that of the Machines: OpenShift's or Cluster API's.
	Resource  schema.GroupVersionResource
	Namespace string
	// Owner is the controller of the Machines.
	Owner metav1.OwnerReference
	// NodeName returns the name of the Node of a Machine.
	NodeName func(machine string) string
}

// Client returns the client for the Machines.
func (m *Machines) Client() dynamic.ResourceInterface {
	return m.Dynamic.Resource(m.Resource).Namespace(m.Namespace)
}

func (m *Machines) ofClusterAPI() bool { return m.Resource.Group == v1beta1.MachineAPICluster }

// Create creates a Machine that is owned and has the label role=worker, without a Node. The
// functions change it before.
func (m *Machines) Create(ctx context.Context, name string, change ...func(*unstructured.Unstructured)) (*unstructured.Unstructured, error) {
	machine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	if m.ofClusterAPI() {
		machine.Object["spec"] = map[string]any{
			"clusterName": ClusterName, "bootstrap": map[string]any{"dataSecretName": "none"},
			"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TestMachine", "name": name},
		}
	}
	machine.SetGroupVersionKind(m.Resource.GroupVersion().WithKind("Machine"))
	machine.SetName(name)
	machine.SetLabels(map[string]string{"role": "worker"})
	machine.SetOwnerReferences([]metav1.OwnerReference{m.Owner})
	for _, c := range change {
		c(machine)
	}
	return m.Client().Create(ctx, machine, metav1.CreateOptions{})
}

// Finalized makes a Machine wait for the end of its instance when it is deleted.
func Finalized(machine *unstructured.Unstructured) { machine.SetFinalizers([]string{Finalizer}) }

// Join gives a Machine a Node that has been ready for an hour. The functions change the Node
// before. A Node that exists stays as it is.
func (m *Machines) Join(ctx context.Context, machine string, change ...func(*corev1.Node)) error {
	anHourAgo := metav1.NewTime(time.Now().Add(-time.Hour))
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.NodeName(machine), Labels: map[string]string{}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: anHourAgo, LastHeartbeatTime: anHourAgo,
		}}},
	}
	node.Annotations = m.clusterAnnotations()
	for _, c := range change {
		c(node)
	}
	if _, err := m.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return m.PatchStatus(ctx, machine, map[string]any{"phase": "Running", "nodeRef": map[string]any{"kind": "Node", "name": node.Name}})
}

// CreateHome creates a Node that no Machine names where it takes one to tell that Machines belong to this cluster: by
// it, they do so before one has joined.
func (m *Machines) CreateHome(ctx context.Context, node string) error {
	if !m.ofClusterAPI() {
		return nil
	}
	home := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: m.clusterAnnotations()}}
	_, err := m.Kube.CoreV1().Nodes().Create(ctx, home, metav1.CreateOptions{})
	return err
}

// clusterAnnotations are those by which a Node belongs to the Cluster of the Machines.
func (m *Machines) clusterAnnotations() map[string]string {
	if !m.ofClusterAPI() {
		return nil
	}
	return map[string]string{"cluster.x-k8s.io/cluster-name": ClusterName, "cluster.x-k8s.io/cluster-namespace": m.Namespace}
}

// PatchStatus merges a patch into the status of a Machine, as its provider would.
func (m *Machines) PatchStatus(ctx context.Context, machine string, status map[string]any) error {
	if ref, ok := status["nodeRef"].(map[string]any); ok && m.ofClusterAPI() {
		delete(ref, "kind") // Its version v1beta2 has only a name.
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = m.Client().Patch(ctx, machine, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// Terminate ends the instance of a Machine that is being deleted: its Node goes, then the Machine.
func (m *Machines) Terminate(ctx context.Context, machine string) error {
	if err := m.Kube.CoreV1().Nodes().Delete(ctx, m.NodeName(machine), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err := m.Client().Patch(ctx, machine, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
