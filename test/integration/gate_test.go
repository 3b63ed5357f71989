// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func minHealthy(value intstr.IntOrString) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.MinHealthy, spec.MaxUnhealthy = &value, nil }
}

func maxUnhealthy(value intstr.IntOrString) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.MinHealthy, spec.MaxUnhealthy = nil, &value }
}

// tooFewHealthy is the note of the event of a closed gate.
func tooFewHealthy(healthy, required int) string {
	return fmt.Sprintf("Skipped remediation because the number of healthy nodes selected by the selector is %d and should equal or exceed %d", healthy, required)
}

// TestGate: of four nodes some are unhealthy when remediation may begin (spec 8.1, 8.2, 8.4, 8.6). TestEvaluateGate has
// the other values.
func TestGate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gate      func(*v1alpha1.NodeHealthCheckSpec)
		unhealthy int
		// required is the number in the note of a closed gate; the gate is open if
		// that is zero.
		required int
	}{
		"8.1-min-closed":                {gate: minHealthy(intstr.FromInt32(3)), unhealthy: 2, required: 3},
		"8.2-min-percentage-rounded-up": {gate: minHealthy(intstr.FromString("51%")), unhealthy: 2, required: 3},
		"8.4-all-nodes-of-a-batch":      {gate: minHealthy(intstr.FromInt32(1)), unhealthy: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			names := []string{"a", "b", "c", "d"}
			s.createNodes(names...)
			listed := map[string]int{}
			for _, name := range names[:tc.unhealthy] {
				s.fail(name)
				listed[name] = 1
			}
			healthy := len(names) - tc.unhealthy
			// The pause ends when the controller knows all of them.
			s.createNHC(tc.gate, pause("to see them together"))
			s.eventuallyCounts(4, int32(healthy))
			s.updateNHC(pause())
			if tc.required == 0 {
				s.eventuallyListed(listed)
				s.eventuallyCounts(4, int32(healthy))
				require.Len(t, s.crs(), tc.unhealthy)
				s.requireEvents(v1alpha1.Kind, s.name, "RemediationSkipped", 1, "only that of the pause")
				return
			}
			for name := range listed {
				listed[name] = 0
			}
			s.eventuallyEvent("RemediationSkipped", tooFewHealthy(healthy, tc.required))
			s.eventuallyCounts(4, int32(healthy))
			require.Equal(t, listed, s.listed(), "18.4: listed without remediations")
			require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
			for _, name := range names[:tc.unhealthy] {
				require.Empty(t, s.crRequests("create", name), "8.5")
			}
		})
	}
}

// TestGateDuringABatch: the gate is evaluated once for all nodes of a batch. A node that
// fails while the first CRs are being created does not stop the others (spec 8.4).
func TestGateDuringABatch(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c", "d")
	for _, name := range []string{"a", "b", "c"} {
		s.fail(name)
	}
	creations := s.holdCreations()
	_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), s.spec(minHealthy(intstr.FromInt32(1))), metav1.CreateOptions{})
	require.NoError(t, err)
	creations.await(t)
	s.fail("d")
	creations.await(t)
	creations.await(t)
	creations.release()
	s.eventuallyListed(map[string]int{"a": 1, "b": 1, "c": 1, "d": 0})
	s.eventuallyDecided("d", v1alpha1.DecidedGateClosed)
	s.requireRequests("create", "d", 0, "8.5")
	for _, name := range []string{"a", "b", "c"} {
		s.requireRequests("create", name, 1, "8.4: node %s", name)
	}
}

// TestGateOpensWithRecovery: a node recovers behind a closed gate, and then the
// waiting ones get their CRs, but not before the CR of that node is gone (spec 5.2,
// 7.6, 8.5, 8.6, 21.3).
func TestGateOpensWithRecovery(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c", "d")
	s.createNHC(minHealthy(intstr.FromInt32(3)))
	s.eventuallyCounts(4, 4)
	s.fail("a")
	s.eventuallyCR("a")
	s.setFinalizers("a", "test.nhc-controller.io/hold")
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0})
	s.eventuallyEvent("RemediationSkipped", tooFewHealthy(2, 3))
	s.fail("c")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0, "c": 0})
	s.eventuallyCounts(4, 1)

	s.heal("a")
	s.eventuallyDeleting("a") // 5.2: although the gate is closed.
	s.heal("c")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0})
	s.eventuallyCounts(4, 2) // 7.6: a is not healthy yet.
	require.Nil(t, s.cr("b"), "8.1: the gate is still closed")

	s.setFinalizers("a")
	s.eventuallyCR("b")
	s.eventuallyListed(map[string]int{"b": 1})
	s.eventuallyCounts(4, 3)
	require.Equal(t, []string{tooFewHealthy(2, 3)}, s.events("RemediationSkipped"), "19.1: once per wait, whatever the counts")
	require.Empty(t, s.crRequests("create", "c"))
	s.requireRequests("create", "b", 1)
}

// TestSelectorWithoutNodes: FR-301 a selector asks for two labels that no node has both of (spec 18.5).
func TestSelectorWithoutNodes(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("worker", "master")
	s.labelNode("worker", map[string]any{s.name + "/worker": ""})
	s.labelNode("master", map[string]any{s.name + "/master": ""})
	s.fail("worker")
	exists := func(label string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: s.name + "/" + label, Operator: metav1.LabelSelectorOpExists}
	}
	s.createNHC(minHealthy(intstr.FromString("51%")), func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{exists("worker"), exists("master")}}
	})
	allowed := s.eventuallyCondition(v1alpha1.ConditionRemediationAllowed, metav1.ConditionFalse)
	require.Equal(t, "NoNodes: the selector selects no node", allowed.Reason+": "+allowed.Message)
	s.eventuallyCounts(0, 0)
	s.eventuallyEvent("NoNodes", "the selector selects no node")
	s.updateNHC(minHealthy(intstr.FromInt32(2)))
	allowed = s.eventuallyCondition(v1alpha1.ConditionRemediationAllowed, metav1.ConditionFalse)
	require.Equal(t, "NoNodes", allowed.Reason, "minHealthy does not matter")

	s.labelNode("master", map[string]any{s.name + "/worker": ""})
	s.updateNHC(minHealthy(intstr.FromInt32(1)))
	s.eventuallyCondition(v1alpha1.ConditionRemediationAllowed, metav1.ConditionTrue)
	s.eventuallyCounts(1, 1)
	s.requireEvents(v1alpha1.Kind, s.name, "NoNodes", 1, "19.1: once")
}
