// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// TestMachines runs the controller with MachineHealthChecks, on a cluster of its own.
func TestMachines(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startMachineHealthChecks(t, ownOverlay)
	t.Run("M10 a failed Node", func(t *testing.T) { ofEachAPI(testMachineReplaced)(t, c) })
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
