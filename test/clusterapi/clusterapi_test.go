// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// TestClusterAPI runs one cluster through what a MachineHealthCheck for all Machines of a
// namespace does. The parts follow one another.
func TestClusterAPI(t *testing.T) {
	c := newCluster(t)
	c.create(clusterName)
	c.connect(clusterName)
	c.create("other") // Managed from here, but its Nodes are elsewhere.
	check := &v1beta1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: "all", Annotations: map[string]string{v1beta1.AnnotationMachineAPI: v1beta1.MachineAPICluster}},
		Spec: v1beta1.MachineHealthCheckSpec{
			NodeStartupTimeout:  new("30s"),
			UnhealthyConditions: []v1beta1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: "0s"}},
		},
	}
	c.eventually(t, "all Machines have joined", func() bool {
		joined := 0
		for _, machine := range c.workers(t, clusterName) {
			if nodeOf(&machine) != "" {
				joined++
			}
		}
		return joined == 3 && len(c.workers(t, "other")) == 3
	})
	_, err := c.NHC.MachineV1beta1().MachineHealthChecks(namespace).Create(t.Context(), check, metav1.CreateOptions{})
	require.NoError(t, err)
	c.eventuallyCounts(t, 4, 4)
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster)
	}{
		{"a Node fails", testNodeFails},
		{"a Machine never joins", testNeverJoins},
		{"the control plane", testControlPlane},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c) })
	}
	require.Equal(t, 4, *c.status(t).IgnoredMachines, "M5.3: the Machines of the other cluster")
	require.Len(t, c.workers(t, "other"), 3)
	require.Len(t, c.deletions(t), 2, "M10.2: one request for each Machine, none for others")
}

// testNodeFails: the Machine of a Node that fails is deleted, and Cluster API's MachineSet
// replaces it (spec M10).
func testNodeFails(t *testing.T, c *cluster) {
	machine := c.workers(t, clusterName)[0]
	node := nodeOf(&machine)
	c.fail(t, node)
	row := c.eventuallyReplaced(t, 1)
	require.Equal(t, "Node", row.TargetKind)
	require.Equal(t, node, row.TargetName)
	require.Equal(t, machine.GetName(), row.Machine)
	require.NotNil(t, row.Fenced)
	c.requireReplacement(t, row)
	c.eventuallyCounts(t, 4, 4)
	nodes, err := c.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	require.NoError(t, err)
	require.Empty(t, nodes.Items, "Cluster API has deleted the Node")
}

// eventuallyReplaced returns the last entry of the history when there are so many, and it is finished.
func (c *cluster) eventuallyReplaced(t *testing.T, entries int) v1beta1.Remediation {
	t.Helper()
	c.eventually(t, "the history has the replacement", func() bool {
		history := c.status(t).RemediationHistory
		return len(history) == entries && history[0].Finished != nil
	})
	return c.status(t).RemediationHistory[0]
}

// requireReplacement: the replacement of an entry is a Machine that the MachineSet has made.
func (c *cluster) requireReplacement(t *testing.T, row v1beta1.Remediation) {
	t.Helper()
	machine, err := c.Dynamic.Resource(machines).Namespace(namespace).Get(t.Context(), row.Replacement, metav1.GetOptions{})
	require.NoError(t, err)
	owner := metav1.GetControllerOf(machine)
	require.NotNil(t, owner)
	require.Equal(t, "MachineSet", owner.Kind)
	require.Equal(t, clusterName+"-workers", owner.Name)
	require.NotEmpty(t, nodeOf(machine))
}

// testNeverJoins: a Machine that gets an instance, but no Node, is replaced too (spec M6.3).
func testNeverJoins(t *testing.T, c *cluster) {
	c.provider.broken.Store(true)
	known := len(c.workers(t, clusterName))
	c.patch(sets, clusterName+"-workers", map[string]any{"spec": map[string]any{"replicas": known + 1}})
	var stuck string
	c.eventually(t, "a Machine has an instance, but no Node", func() bool {
		for _, machine := range c.workers(t, clusterName) {
			id, _, err := unstructured.NestedString(machine.Object, "spec", "providerID")
			require.NoError(t, err)
			if id != "" && nodeOf(&machine) == "" {
				stuck = machine.GetName()
			}
		}
		return stuck != ""
	})
	c.provider.broken.Store(false)
	row := c.eventuallyReplaced(t, 2)
	require.Equal(t, "Machine", row.TargetKind)
	require.Equal(t, stuck, row.TargetName)
	require.Equal(t, v1beta1.TriggerNodeStartupTimeout, row.Reason)
	c.requireReplacement(t, row)
	c.eventuallyCounts(t, 5, 5)
}

// testControlPlane: a Machine of the control plane is left to its provider (spec M13.3).
func testControlPlane(t *testing.T, c *cluster) {
	name := clusterName + "-control-plane"
	machine, err := c.Dynamic.Resource(machines).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	c.fail(t, nodeOf(machine))
	c.eventually(t, "the decision about the control plane", func() bool {
		for _, entry := range c.status(t).UnhealthyMachines {
			if entry.Name == name && entry.Decision.Reason == v1beta1.DecidedControlPlaneProvider {
				return true
			}
		}
		return false
	})
	machine, err = c.Dynamic.Resource(machines).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, machine.GetDeletionTimestamp())
	require.NotContains(t, c.deletions(t), name)
}
