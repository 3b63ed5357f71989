// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestPermissionOnMachinesWithdrawn: F11e the permission on Machines is withdrawn while a NodeHealthCheck leaves the Node of a
// paused MachineHealthCheck alone. What was read last holds, also when the watches end (spec M15.1).
func TestPermissionOnMachinesWithdrawn(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	// The restart of the API server must not end the process.
	controller := c.startMachineHealthChecks(t, ownOverlay, "--leader-elect-lease-duration=120s", "--leader-elect-renew-deadline=100s")
	s := newMachineScenario(t, c, openShiftMachine)
	s.createMachine("m1")
	s.join("m1")
	s.createCheck(func(check *v1beta1.MachineHealthCheck) {
		check.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
	})
	nhc := newEmptyScenario(t, c, t.Name()+"-nhc", powerCycle)
	nhc.createTemplate(usualTemplate())
	nhc.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}}
	})
	s.setReady("m1", corev1.ConditionUnknown)
	held := func() bool {
		for _, entry := range nhc.status().UnhealthyNodes {
			if entry.Decision != nil && entry.Decision.Reason == v1alpha1.DecidedMachineHealthCheck {
				return true
			}
		}
		return false
	}
	nhc.eventually("the Node belongs to the paused MachineHealthCheck", held)

	require.NoError(t, c.kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), "nhc-controller-machine-health-check", metav1.DeleteOptions{}))
	require.NoError(t, c.RestartAPIServer(t.Context())) // An open watch outlives the permission.
	eventuallyLogged(t, controller, "The watch of a cache has failed for too long: nothing that depends on the cache begins")
	require.Empty(t, nhc.crs(), "the user has paused the MachineHealthCheck of this Machine")
	require.Equal(t, v1alpha1.DecisionHeld, nhc.status().UnhealthyNodes[0].Decision.Type) // MachineHealthCheck, or Disabled.
}
