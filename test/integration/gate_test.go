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

// TestGate: of four nodes some are unhealthy when remediation may begin (spec 8.1 to
// 8.4, 8.6).
func TestGate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gate      func(*v1alpha1.NodeHealthCheckSpec)
		unhealthy int
		// required is the number in the note of a closed gate; the gate is open if
		// that is zero.
		required int
	}{
		"8.1-min-open":                      {gate: minHealthy(intstr.FromInt32(2)), unhealthy: 2},
		"8.1-min-closed":                    {gate: minHealthy(intstr.FromInt32(3)), unhealthy: 2, required: 3},
		"8.1-max-open":                      {gate: maxUnhealthy(intstr.FromInt32(2)), unhealthy: 2},
		"8.1-max-closed":                    {gate: maxUnhealthy(intstr.FromInt32(1)), unhealthy: 2, required: 3},
		"8.2-min-numeric-string":            {gate: minHealthy(intstr.FromString("3")), unhealthy: 2, required: 3},
		"8.2-max-numeric-string":            {gate: maxUnhealthy(intstr.FromString("1")), unhealthy: 2, required: 3},
		"8.2-min-percentage-rounded-up":     {gate: minHealthy(intstr.FromString("51%")), unhealthy: 2, required: 3},
		"8.2-min-percentage-exact":          {gate: minHealthy(intstr.FromString("50%")), unhealthy: 2},
		"8.2-max-percentage-rounded-up":     {gate: maxUnhealthy(intstr.FromString("26%")), unhealthy: 2},
		"8.2-max-percentage-exact":          {gate: maxUnhealthy(intstr.FromString("25%")), unhealthy: 2, required: 3},
		"8.3-min-all":                       {gate: minHealthy(intstr.FromString("100%")), unhealthy: 1, required: 4},
		"8.3-max-none":                      {gate: maxUnhealthy(intstr.FromString("0%")), unhealthy: 1, required: 4},
		"8.3-max-above-the-number-of-nodes": {gate: maxUnhealthy(intstr.FromInt32(10)), unhealthy: 4},
		"8.1-min-above-the-number-of-nodes": {gate: minHealthy(intstr.FromInt32(5)), unhealthy: 1, required: 5},
		"8.2-min-none":                      {gate: minHealthy(intstr.FromString("0%")), unhealthy: 4},
		"8.4-all-nodes-of-a-batch":          {gate: minHealthy(intstr.FromInt32(1)), unhealthy: 3},
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

// TestGateOpensBySpec: the gate follows the spec. Closing it again leaves running
// remediations alone (spec 5.3, 8.5, 19.1).
func TestGateOpensBySpec(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c", "d")
	s.createNHC(minHealthy(intstr.FromString("100%")))
	s.eventuallyCounts(4, 4)
	s.fail("a")
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 0, "b": 0})
	s.eventuallyCounts(4, 2)
	s.eventually("the event", func() bool { return len(s.events("RemediationSkipped")) == 1 })
	require.Empty(t, s.crs())

	s.updateNHC(maxUnhealthy(intstr.FromInt32(2)))
	a, b := s.eventuallyCR("a"), s.eventuallyCR("b")

	s.updateNHC(minHealthy(intstr.FromString("75%")))
	s.fail("c")
	s.eventuallyListed(map[string]int{"a": 1, "b": 1, "c": 0})
	s.eventuallyEvent("RemediationSkipped", tooFewHealthy(1, 3))
	s.catchUpNodes()
	require.Equal(t, a.GetResourceVersion(), s.cr("a").GetResourceVersion(), "5.3: never cancelled by a block")
	require.Equal(t, b.GetResourceVersion(), s.cr("b").GetResourceVersion(), "5.3")
	require.Nil(t, s.cr("c"))
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	require.Equal(t, "NHC is remediating 2 nodes", s.status().Reason)

	s.heal("c")
	s.eventuallyListed(map[string]int{"a": 1, "b": 1})
	s.updateNHC(maxUnhealthy(intstr.FromString("100%")))
	s.fail("d")
	s.eventuallyCR("d")
	s.requireEvents(v1alpha1.Kind, s.name, "RemediationSkipped", 2, "19.1: once each time it begins to keep nodes waiting")
	require.Empty(t, s.crRequests("create", "c"))
}

// TestGateFollowsSelection: nodes that come and go count (spec 7.1, 8.2).
func TestGateFollowsSelection(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC(minHealthy(intstr.FromString("51%")))
	s.eventuallyCounts(2, 2)
	s.fail("a")
	s.eventuallyEvent("RemediationSkipped", tooFewHealthy(1, 2))
	require.Nil(t, s.cr("a"))
	s.createNodes("c") // Of 3 nodes 51 % are 2.
	s.eventuallyCR("a")
	s.eventuallyCounts(3, 2)
	s.deleteNode("c")
	s.eventuallyCounts(2, 1)
	s.fail("b")
	s.eventuallyCounts(2, 0)
	s.eventuallyListed(map[string]int{"a": 1, "b": 0})
	require.Nil(t, s.cr("b"))
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
