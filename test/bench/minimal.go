// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// minimalController is the control: the least that any controller must do. It creates a
// lease and a remediation for each node that it sees fail, and deletes both when it sees
// the node recover. It keeps no status, and reads nothing else.
type minimalController struct {
	by *clients
	// group is the group of nodes that it reacts to, empty for all.
	group string
	// preflight makes it read the node once more before it acts.
	preflight bool

	work    chan *corev1.Node
	workers sync.WaitGroup
	failed  map[string]bool // As the watch has seen it, by node.
	errors  errorCount
	stop    func()
}

// startMinimal starts the control. It reacts until stop is called.
func (e *environment) startMinimal(ctx context.Context, m *minimalController, workers int) error {
	m.by = e.control
	m.failed = map[string]bool{}
	m.work = make(chan *corev1.Node, 2*(e.nodes+controlNodes)) // The watch never waits.
	ctx, cancel := context.WithCancel(ctx)
	stopWatch, err := e.watchNodes(ctx, e.control, m.saw)
	if err != nil {
		cancel()
		return err
	}
	for range workers {
		m.workers.Go(func() {
			for node := range m.work {
				m.errors.add(ctx, m.react(ctx, node))
			}
		})
	}
	m.stop = func() {
		stopWatch()
		close(m.work)
		m.workers.Wait()
		cancel()
	}
	return nil
}

// saw is called for one change after the other.
func (m *minimalController) saw(node *corev1.Node) {
	if m.group != "" && node.Labels[groupLabel] != m.group {
		return
	}
	if failed := !isReady(node); failed != m.failed[node.Name] {
		m.failed[node.Name] = failed
		m.work <- node
	}
}

func (m *minimalController) react(ctx context.Context, node *corev1.Node) error {
	leases := m.by.kube.CoordinationV1().Leases(leaseNamespace)
	crs := m.by.dynamic.Resource(remediator.Resource).Namespace(metav1.NamespaceDefault)
	if isReady(node) {
		if err := crs.Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting a remediation: %w", err)
		}
		if err := leases.Delete(ctx, object.LeaseName(node.Name), metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting a lease: %w", err)
		}
		return nil
	}
	if m.preflight {
		if _, err := m.by.kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("reading a node: %w", err)
		}
	}
	if _, err := leases.Create(ctx, leaseOf(node), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a lease: %w", err)
	}
	if _, err := crs.Create(ctx, remediationOf(node), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a remediation: %w", err)
	}
	return nil
}

func ownerOf(node *corev1.Node) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
}

// leaseOf returns a lease like that of a controller.
func leaseOf(node *corev1.Node) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: object.LeaseName(node.Name), OwnerReferences: ownerOf(node)},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(controlAccount), LeaseDurationSeconds: new(int32(660)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(int32(0)),
		},
	}
}

// remediationOf returns a remediation like that of a controller. Its owner is the
// node, so that no controller takes it for its own.
func remediationOf(node *corev1.Node) *unstructured.Unstructured {
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"offSeconds": int64(3)}}}
	cr.SetAPIVersion(remediator.Resource.GroupVersion().String())
	cr.SetKind("PowerCycleRemediation")
	cr.SetNamespace(metav1.NamespaceDefault)
	cr.SetName(node.Name)
	cr.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: node.Name, v1alpha1.AnnotationTemplateName: template})
	cr.SetLabels(map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf})
	cr.SetOwnerReferences(ownerOf(node))
	return cr
}
