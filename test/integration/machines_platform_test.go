// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestLastCheckDeleted: the only MachineHealthCheck of an API is deleted while its Machines drain, which takes hours with
// PodDisruptionBudgets. A NodeHealthCheck leaves their Nodes alone until then (F5). Each API has one
// MachineHealthCheck in this cluster.
func TestLastCheckDeleted(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startMachineHealthChecks(t, ownOverlay)
	t.Run("M10.3", func(t *testing.T) { ofEachAPI(testLeaseUntilGone)(t, c) })
}

// testLeaseUntilGone: the lease of a Node is kept until its Machine is gone, also when no
// MachineHealthCheck selects the Machine any more, and then released (spec M10.3).
func testLeaseUntilGone(t *testing.T, s *machineScenario) {
	nhc := newEmptyScenario(t, s.cluster, t.Name()+"-nhc", powerCycle)
	nhc.createTemplate(usualTemplate())
	nhc.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}}
		spec.MinHealthy = new(intOrString("0%"))
	})
	s.createMachine("relabelled", finalized)
	s.createMachine("left", finalized)
	s.join("relabelled", "left")
	nhc.pass(time.Now()) // What is deleted in the second in which its Node appears may have been deleted before.
	s.createCheck()
	for _, machine := range []string{"relabelled", "left"} {
		s.setReady(machine, corev1.ConditionUnknown)
		s.eventuallyDecided(machine, "MachineDeleting")
	}
	s.patchMachine("relabelled", map[string]any{"labels": map[string]any{"role": "none"}})
	refused := func(machine string) bool {
		for _, node := range nhc.status().UnhealthyNodes {
			if node.Name == s.nodeName(machine) {
				return node.Decision != nil && node.Decision.Reason == v1alpha1.DecidedLeaseTaken
			}
		}
		return false
	}
	nhc.eventually("the lease of the Node is respected", func() bool { return refused("relabelled") })
	require.NoError(t, s.mhcs().Delete(t.Context(), s.name, metav1.DeleteOptions{}))
	nhc.eventually("so are both", func() bool { return refused("relabelled") && refused("left") })
	require.Empty(t, nhc.crs(), "M15.2: the Machines are being deleted")
	for _, machine := range []string{"relabelled", "left"} {
		// When that of the first one is released, the controller has looked at the other one, too.
		require.Equal(t, "MachineHealthCheck-"+s.name+"/"+s.name, s.leaseHolder(machine), "M10.3: the lease of %s is kept", machine)
		s.patchMachine(machine, map[string]any{"finalizers": nil})
		s.eventually("the lease is released", func() bool {
			_, err := s.kube.CoordinationV1().Leases("medik8s-leases").Get(t.Context(), "node-"+s.nodeName(machine), metav1.GetOptions{})
			return apierrors.IsNotFound(err) || len(nhc.crs()) > 0 // The NodeHealthCheck may be faster.
		})
	}
}

// leaseHolder returns who holds the lease of the Node of a Machine, empty if there is none.
func (s *machineScenario) leaseHolder(machine string) string {
	s.t.Helper()
	lease, err := s.kube.CoordinationV1().Leases("medik8s-leases").Get(s.t.Context(), "node-"+s.nodeName(machine), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	require.NoError(s.t, err)
	return *lease.Spec.HolderIdentity
}
