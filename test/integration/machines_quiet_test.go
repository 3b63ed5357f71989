// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// quietMachines brings one MachineHealthCheck each into the states in which nothing is to be done, and
// returns when they are there. TestQuietCluster counts what is requested then (spec M7.3, M19.1).
func quietMachines(t *testing.T, c *cluster) map[string]*machineScenario {
	t.Helper()
	start := func(change ...func(*v1beta1.MachineHealthCheck)) *machineScenario {
		s := newMachineScenario(t, c, clusterAPIMachine)
		for _, machine := range []string{"a", "b", "c"} {
			s.createMachine(machine, finalized)
			s.join(machine)
		}
		s.createMachine("without-node", finalized)
		s.createCheck(change...)
		s.eventuallyCounts(4, 3)
		return s
	}
	failing := func(reason string, change ...func(*v1beta1.MachineHealthCheck)) *machineScenario {
		s := start(change...)
		s.setReady("a", corev1.ConditionUnknown)
		s.eventuallyDecided("a", reason)
		return s
	}
	scenarios := map[string]*machineScenario{
		"allowed":     start(),
		"blocked":     failing("GateClosed", atMost(intstr.FromInt32(1))),
		"paused":      failing("Paused", annotated(v1beta1.AnnotationPaused, "")),
		"soon":        failing("SoonUnhealthy", func(check *v1beta1.MachineHealthCheck) { check.Spec.UnhealthyConditions[0].Timeout = "1h" }),
		"no template": failing("TemplateUnavailable", fromTemplate),
		"deleting":    start(),
	}
	// A Node that is missing is looked for once.
	blocked := scenarios["blocked"]
	require.NoError(t, c.kube.CoreV1().Nodes().Delete(t.Context(), blocked.nodeName("b"), metav1.DeleteOptions{}))
	require.Equal(t, "NodeMissing", blocked.eventuallyDecided("b", "GateClosed").Trigger.Reason)
	blocked.eventuallyEvent("MachineHealthCheck", blocked.name, "RemediationRestricted",
		"Remediation restricted due to exceeded number of unhealthy machines (total: 4, unhealthy: 2, maxUnhealthy: 1)")
	// Its deletion hangs. There is no Node, and so no lease that has to be renewed.
	scenarios["deleting"].setPhase("without-node", "Failed")
	scenarios["deleting"].eventuallyDecided("without-node", "MachineDeleting")
	return scenarios
}

// version returns the resourceVersion of the MachineHealthCheck.
func (s *machineScenario) version() string {
	s.t.Helper()
	check, err := s.mhcs().Get(s.t.Context(), s.name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return check.GetResourceVersion()
}
