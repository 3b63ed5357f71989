// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// testMachineHeld: the decision names the obstacle to the remediation of a Machine, and ends with its
// cause (spec M5.4, M8.2, M9.2).
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
	for machine, other := range map[string]string{"twin": "twin-too", "twin-too": "twin"} { // FR-329: the decision did not name it.
		require.Equal(t, "Machine "+s.name+"/"+other+" also names Node "+s.nodeName("twin"), s.eventuallyDecided(machine, "AmbiguousNode").Decision.Message)
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
