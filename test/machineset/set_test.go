// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
)

func newSet(group string, replicas *int) *Set {
	resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "machines"}
	set := &Set{
		Machines: &Machines{
			Kube:     fake.NewClientset(),
			Dynamic:  dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "MachineList"}),
			Resource: resource, Namespace: "machines",
			Owner:    metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "pool", UID: "pool", Controller: new(true)},
			NodeName: func(machine string) string { return "node-" + machine },
		},
		Replicas: func(context.Context) (int, error) { return *replicas, nil },
		Name:     func(n int) string { return fmt.Sprintf("m%d", n) },
	}
	set.Provide = func(ctx context.Context, machine string) error { return set.Join(ctx, machine) }
	return set
}

// requestDeletion does what an API server does to an object with a finalizer.
func (s *Set) requestDeletion(t *testing.T, machine string) {
	t.Helper()
	_, err := s.Client().Patch(t.Context(), machine, types.MergePatchType, []byte(`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// TestSet: a Machine that is being deleted is replaced, its Node goes, and its finalizer.
func TestSet(t *testing.T) {
	t.Parallel()
	replicas := 2
	s := newSet("machine.openshift.io", &replicas)
	require.NoError(t, s.reconcile(t.Context()))
	require.NoError(t, s.reconcile(t.Context()))
	require.Equal(t, []string{"m1", "m2"}, s.Created())
	machine, err := s.Client().Get(t.Context(), "m1", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []metav1.OwnerReference{s.Owner}, machine.GetOwnerReferences())
	require.Equal(t, []string{Finalizer}, machine.GetFinalizers())
	require.Equal(t, map[string]any{"phase": "Running", "nodeRef": map[string]any{"kind": "Node", "name": "node-m1"}}, machine.Object["status"])
	node, err := s.Kube.CoreV1().Nodes().Get(t.Context(), "node-m1", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.ConditionTrue, node.Status.Conditions[0].Status)

	s.requestDeletion(t, "m1")
	require.NoError(t, s.reconcile(t.Context()))
	require.Equal(t, []string{"m1", "m2", "m3"}, s.Created())
	_, err = s.Kube.CoreV1().Nodes().Get(t.Context(), "node-m1", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
	machine, err = s.Client().Get(t.Context(), "m1", metav1.GetOptions{})
	require.NoError(t, err, "the fake does not remove it")
	require.Empty(t, machine.GetFinalizers())

	replicas = 3
	require.NoError(t, s.reconcile(t.Context()))
	require.Equal(t, []string{"m1", "m2", "m3", "m4"}, s.Created())
}

// TestMachinesOfClusterAPI: their Nodes name the Cluster.
func TestMachinesOfClusterAPI(t *testing.T) {
	t.Parallel()
	s := newSet("cluster.x-k8s.io", new(1))
	require.NoError(t, s.reconcile(t.Context()))
	machine, err := s.Client().Get(t.Context(), "m1", metav1.GetOptions{})
	require.NoError(t, err)
	name, _, err := unstructured.NestedString(machine.Object, "spec", "clusterName")
	require.NoError(t, err)
	require.Equal(t, ClusterName, name)
	require.Equal(t, map[string]any{"phase": "Running", "nodeRef": map[string]any{"name": "node-m1"}}, machine.Object["status"])
	node, err := s.Kube.CoreV1().Nodes().Get(t.Context(), "node-m1", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"cluster.x-k8s.io/cluster-name": ClusterName, "cluster.x-k8s.io/cluster-namespace": "machines"}, node.Annotations)
}

// TestRun: what fails is repeated, and told at the end.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSet("machine.openshift.io", new(1))
		failure := errors.New("no capacity")
		attempts := 0
		s.Replicas = func(context.Context) (int, error) {
			if attempts++; attempts == 1 {
				return 0, failure
			}
			return 1, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*interval)
		defer cancel()
		require.ErrorIs(t, s.Run(ctx), failure)
		require.Equal(t, []string{"m1"}, s.Created())
	})
}
