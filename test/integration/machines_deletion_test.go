// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// TestMachines runs the controller with MachineHealthChecks, on clusters of its own. Every scenario
// has a namespace.
func TestMachines(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	ofClusterAPI := clusterAPI{machine: clusterAPIMachine, cluster: clusterOfCAPI, healthCheck: realClusterAPIHealthCheck}
	c.startMachineHealthChecks(t, ownOverlay, "--machine-backoff-base=4s", "--machine-backoff-cap=12s")
	t.Run("scenarios", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *cluster){
			"M10 a failed Node":      ofEachAPI(testMachineReplaced),
			"M7 threshold":           ofEachAPI(testMachineThreshold),
			"M8 held":                ofEachAPI(testMachineHeld),
			"M7.4 shared Machines":   ofEachAPI(testMachineShared),
			"M14 back-off":           ofEachAPI(testMachineBackOff),
			"M11 annotations":        testMachineStrategies,
			"M12 template":           ofEachAPI(testMachineTemplate),
			"M12.4 left":             ofEachAPI(testMachineRemediationLeft),
			"M5.3 Cluster API":       testMachinesOfClusterAPI,
			"M4.4 paused Clusters":   func(t *testing.T, c *cluster) { testClusterPaused(t, c, ofClusterAPI) },
			"M15 NodeHealthChecks":   ofEachAPI(testMachinesAndNodes),
			"B2 machine budget":      ofEachAPI(testMachineBudget),
			"M5.3 Nodes of Clusters": testNodesOfClusters,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, c)
			})
		}
	})
}

// testMachineReplaced: the Machine of a Node that fails is deleted once, and the history shows its
// replacement.
func testMachineReplaced(t *testing.T, s *machineScenario) {
	set := s.startMachineSet(3, s.joins)
	s.createCheck()
	s.eventuallyCounts(3, 3)
	s.setReady("m2", corev1.ConditionUnknown)
	s.eventuallyGone("m2")
	s.eventuallyCounts(3, 3)
	require.Equal(t, []string{"m1", "m2", "m3", "m4"}, set.Created())
	require.Len(t, s.deleteRequests(""), 1, "M10.2: one request")
	s.eventually("the history shows the replacement", func() bool {
		history := s.status().RemediationHistory
		return len(history) == 1 && history[0].Finished != nil
	})
	row := s.status().RemediationHistory[0]
	require.Equal(t, "Node", row.TargetKind, "M16.2")
	require.Equal(t, s.nodeName("m2"), row.TargetName)
	require.Equal(t, corev1.NodeReady, row.ConditionType)
	require.Equal(t, corev1.ConditionUnknown, row.ConditionStatus)
	require.Equal(t, v1beta1.RemediationMachineDeletion, row.RemediationType)
	require.Equal(t, "m4", row.Replacement)
	require.NotNil(t, row.Started)
	require.NotNil(t, row.Fenced)
	target := s.name + "/" + s.name + "/m2/" + s.nodeName("m2")
	s.eventuallyEvent("Machine", "m2", "DetectedUnhealthy", "Machine "+target+" has unhealthy node "+s.nodeName("m2"))
	s.eventuallyEvent("Machine", "m2", "MachineDeleted", "Machine "+target+" has been remediated by requesting to delete Machine object")
}

// testMachineThreshold is the example of the seed: 50 % of ten Machines.
func testMachineThreshold(t *testing.T, s *machineScenario) {
	s.createCheck(atMost(intstr.FromString("50%")))
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, name := range names {
		s.createMachine(name, finalized)
	}
	s.join(names...)
	s.eventuallyCounts(10, 10)
	s.updateCheck(annotated(v1beta1.AnnotationPaused, ""))
	for _, name := range names[:6] {
		s.setReady(name, corev1.ConditionFalse)
	}
	s.eventuallyCounts(10, 4)
	s.unpause(s.name)
	s.eventuallyDecided("a", "GateClosed")
	const counts = "(total: 10, unhealthy: 6, maxUnhealthy: 50%)"
	s.eventuallyEvent("MachineHealthCheck", s.name, "RemediationRestricted", "Remediation restricted due to exceeded number of unhealthy machines "+counts)
	status := s.status()
	require.Equal(t, int32(0), *status.RemediationsAllowed)
	require.Equal(t, v1beta1.ConditionRemediationAllowed, status.Conditions[0].Type)
	require.Equal(t, corev1.ConditionFalse, status.Conditions[0].Status)
	require.Equal(t, "TooManyUnhealthy", status.Conditions[0].Reason)
	require.Equal(t, v1beta1.SeverityWarning, status.Conditions[0].Severity)
	require.Equal(t, "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy "+counts+". 50% of 10 allows 5.", status.Conditions[0].Message, "M7.3")
	require.Empty(t, s.deleteRequests(""))

	s.setReady("f", corev1.ConditionTrue)
	for _, name := range names[:5] {
		s.eventuallyDecided(name, "MachineDeleting")
	}
	require.Len(t, s.deleteRequests(""), 5, "M7.1: through an open threshold all that are due")
	require.Empty(t, s.deleteRequests("f"))
}
