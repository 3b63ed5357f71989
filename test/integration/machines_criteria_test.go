// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// testMachineCriteria: each criterion alone has a Machine deleted, and nothing else has (spec M6).
func testMachineCriteria(t *testing.T, s *machineScenario) {
	for _, name := range []string{"failed", "missing", "condition", "healthy", "without-node"} {
		s.createMachine(name, finalized)
	}
	s.join("missing", "condition", "healthy")
	s.createCheck()
	s.eventuallyCounts(5, 3)
	require.Equal(t, "NotStarted", string(s.eventuallyDecided("without-node", "NotStarted").Decision.Reason), "M6.2: 0 turns the check off")

	s.setPhase("failed", "Failed")
	require.Equal(t, "MachineFailed", s.eventuallyDecided("failed", "MachineDeleting").Trigger.Reason)
	require.NoError(t, s.kube.CoreV1().Nodes().Delete(t.Context(), s.nodeName("missing"), metav1.DeleteOptions{}))
	require.Equal(t, "NodeMissing", s.eventuallyDecided("missing", "MachineDeleting").Trigger.Reason)
	s.setReady("condition", corev1.ConditionFalse)
	entry := s.eventuallyDecided("condition", "MachineDeleting")
	require.Equal(t, v1beta1.MachineTrigger{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "UnhealthyCondition"}, *entry.Trigger)
	require.Equal(t, s.nodeName("condition"), entry.Node)
	s.eventuallyCounts(5, 1) // M6.1: what is being deleted counts, and not as healthy.
	require.Len(t, s.deleteRequests(""), 3)
}

// testMachineExpiry: time alone makes a Machine unhealthy, and one condition that has not lasted
// does not hide another that has (spec M6.2, P7).
func testMachineExpiry(t *testing.T, s *machineScenario) {
	s.createMachine("startup", finalized)
	s.createMachine("condition", finalized)
	s.createMachine("recovers", finalized)
	s.join("condition", "recovers")
	s.createCheck(func(check *v1beta1.MachineHealthCheck) {
		check.Spec.NodeStartupTimeout = new("6s")
		check.Spec.UnhealthyConditions = []v1beta1.UnhealthyCondition{
			{Type: "DiskPressure", Status: corev1.ConditionTrue, Timeout: "1h"},
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: "4s"},
		}
	})
	s.setNodeCondition("condition", corev1.NodeCondition{Type: "DiskPressure", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute))})
	s.setReady("condition", corev1.ConditionFalse)
	s.setReady("recovers", corev1.ConditionFalse)
	soon := s.eventuallyDecided("condition", "SoonUnhealthy")
	require.NotNil(t, soon.Decision.NextCheckTime)
	s.setReady("recovers", corev1.ConditionTrue)
	s.eventuallyDecided("condition", "MachineDeleting")
	require.Equal(t, "NodeStartupTimeout", s.eventuallyDecided("startup", "MachineDeleting").Trigger.Reason)
	created, deleted := s.machine("startup").GetCreationTimestamp(), s.machine("startup").GetDeletionTimestamp()
	require.False(t, deleted.Time.Before(created.Add(6*time.Second)), "not before its time")
	require.Empty(t, s.deleteRequests("recovers"))
}

// testMachineHeld: the decision names the obstacle to the remediation of a Machine, and ends with its
// cause (spec M8.2, M9.2).
func testMachineHeld(t *testing.T, s *machineScenario) {
	s.createMachine("paused", finalized, machineAnnotated(v1beta1.AnnotationPaused, ""))
	s.createMachine("skipped", finalized, machineAnnotated(v1beta1.AnnotationSkipRemediation, ""))
	s.createMachine("excluded", finalized)
	s.createMachine("twin", finalized)
	s.createMachine("twin-too", finalized)
	s.createMachine("unowned", unowned)
	for _, name := range []string{"paused", "skipped", "excluded", "twin", "unowned"} {
		s.join(name)
	}
	require.NoError(t, s.provided.PatchStatus(t.Context(), "twin-too", map[string]any{"nodeRef": map[string]any{"kind": "Node", "name": s.nodeName("twin")}}))
	s.labelNode("excluded", map[string]any{"remediation.medik8s.io/exclude-from-remediation": "true"})
	s.createCheck()
	for _, name := range []string{"paused", "skipped", "excluded", "twin", "unowned"} {
		s.setReady(name, corev1.ConditionUnknown)
	}
	for machine, reason := range map[string]string{
		"paused": "MachinePaused", "skipped": "Excluded", "excluded": "Excluded",
		"twin": "AmbiguousNode", "twin-too": "AmbiguousNode", "unowned": "NoController",
	} {
		require.Equal(t, "Held", string(s.eventuallyDecided(machine, reason).Decision.Type))
	}
	target := s.name + "/" + s.name + "/unowned/" + s.nodeName("unowned")
	s.eventuallyEvent("Machine", "unowned", "SkippedNoController", "Machine "+target+" has no controller owner, skipping remediation")
	require.Empty(t, s.events("Machine", "paused", "RemediationSkipped"), "M17.1: none for a pause")
	require.Empty(t, s.deleteRequests(""))

	s.patchMachine("paused", map[string]any{"annotations": map[string]any{v1beta1.AnnotationPaused: nil}})
	s.patchMachine("skipped", map[string]any{"annotations": map[string]any{v1beta1.AnnotationSkipRemediation: nil}})
	s.labelNode("excluded", map[string]any{"remediation.medik8s.io/exclude-from-remediation": nil})
	s.patchMachine("unowned", map[string]any{"ownerReferences": []any{map[string]any{
		"apiVersion": s.owner.APIVersion, "kind": s.owner.Kind, "name": s.owner.Name, "uid": string(s.owner.UID), "controller": true,
	}}})
	for _, name := range []string{"paused", "skipped", "excluded"} {
		s.eventuallyDecided(name, "MachineDeleting")
	}
	s.eventuallyGone("unowned") // It has no finalizer.
	require.Len(t, s.deleteRequests(""), 4, "M10.2: one request for each")
}

// testMachineShared: of two MachineHealthChecks that select a Machine, the stricter one counts, and
// one acts (spec M7.4).
func testMachineShared(t *testing.T, s *machineScenario) {
	for _, name := range []string{"a", "b", "c"} {
		s.createMachine(name, finalized)
		s.join(name)
	}
	s.createCheck()
	s.createCheck(func(check *v1beta1.MachineHealthCheck) { check.Name = "strict" }, atMost(intOrString("1")), annotated(v1beta1.AnnotationPaused, ""))
	s.eventually("both name each other", func() bool {
		return hasMachineCondition(s.status(), "SelectorOverlap", corev1.ConditionTrue) && hasMachineCondition(s.statusOf("strict"), "SelectorOverlap", corev1.ConditionTrue)
	})
	s.updateCheck(annotated(v1beta1.AnnotationPaused, ""))
	s.setReady("a", corev1.ConditionUnknown)
	s.setReady("b", corev1.ConditionUnknown)
	s.eventuallyCounts(3, 1)
	s.unpause("strict")
	s.unpause(s.name)
	s.eventuallyDecided("a", "OtherHealthCheck")
	require.Empty(t, s.deleteRequests(""))
	s.setReady("b", corev1.ConditionTrue)
	s.eventuallyDecided("a", "MachineDeleting")
	require.Len(t, s.deleteRequests(""), 1, "one of them acts")
}

// unpause removes the pause of a MachineHealthCheck.
func (s *machineScenario) unpause(name string) {
	s.t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"` + v1beta1.AnnotationPaused + `":null}}}`)
	_, err := s.mhcs().Patch(s.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(s.t, err)
}

func hasMachineCondition(status v1beta1.MachineHealthCheckStatus, conditionType string, want corev1.ConditionStatus) bool {
	for i := range status.Conditions {
		if status.Conditions[i].Type == conditionType {
			return status.Conditions[i].Status == want
		}
	}
	return false
}
