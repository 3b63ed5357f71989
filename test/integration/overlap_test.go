// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// teamLabel is what the second NodeHealthCheck of a test selects by.
const teamLabel = "test.nhc-controller.io/team"

// eventuallyOverlap waits until the condition names this number of nodes shared with
// another NodeHealthCheck, perhaps 0, and returns the condition.
func (s *scenario) eventuallyOverlap(other *scenario, nodes int) metav1.Condition {
	s.t.Helper()
	want := metav1.Condition{
		Type: v1alpha1.ConditionSelectorOverlap, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoOverlap,
		Message: "No other NodeHealthCheck selects any of the nodes",
	}
	if nodes > 0 {
		want.Status, want.Reason = metav1.ConditionTrue, v1alpha1.ReasonOverlap
		want.Message = fmt.Sprintf("Nodes are selected by other NodeHealthChecks too: %q (%d). The one that obtains the lease of a node first remediates it", other.name, nodes)
	}
	var nhc *v1alpha1.NodeHealthCheck
	s.eventually(fmt.Sprintf("%d nodes shared", nodes), func() bool {
		nhc = s.get()
		condition := meta.FindStatusCondition(nhc.Status.Conditions, want.Type)
		if condition == nil {
			return false
		}
		want.LastTransitionTime, want.ObservedGeneration = condition.LastTransitionTime, nhc.Generation
		return *condition == want
	})
	return want
}

// TestSelectorOverlap: two NodeHealthChecks that select some of the same nodes say so,
// both, as long as they do (spec 11.5).
func TestSelectorOverlap(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c")
	s.createNHC()
	other := s.otherScenario()
	other.createTemplate(usualTemplate())
	apart := s.eventuallyOverlap(other, 0)

	s.labelNode("a", map[string]any{teamLabel: s.name})
	s.labelNode("b", map[string]any{teamLabel: s.name})
	s.pass(apart.LastTransitionTime.Time)
	byTeam := func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{teamLabel: s.name}}
	}
	other.createNHC(byTeam)
	begun := s.eventuallyOverlap(other, 2)
	other.eventuallyOverlap(s, 2)
	require.True(t, begun.LastTransitionTime.After(apart.LastTransitionTime.Time), "it has begun")

	// One node less, which the first one still selects.
	s.pass(begun.LastTransitionTime.Time)
	s.labelNode("b", map[string]any{teamLabel: nil})
	other.eventuallyCounts(1, 1)
	fewer := s.eventuallyOverlap(other, 1)
	other.eventuallyOverlap(s, 1)
	require.Equal(t, begun.LastTransitionTime, fewer.LastTransitionTime, "the same state, with another number")

	// Quiet: labels that no selector uses.
	begin := time.Now()
	s.labelNode("a", map[string]any{"test.nhc-controller.io/noise": "1"})
	s.labelNode("c", map[string]any{"test.nhc-controller.io/noise": "1"})
	s.catchUpNodes()
	s.requireStatusWrites(begin, 2, "P3: the canary that has come and gone")
	other.requireStatusWrites(begin, 0, "P3")
	s.eventuallyOverlap(other, 1)

	s.labelNode("a", map[string]any{teamLabel: nil})
	s.eventuallyOverlap(other, 0)
	other.eventuallyOverlap(s, 0)

	other.updateNHC(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.Selector = s.spec().Spec.Selector })
	s.eventuallyOverlap(other, 3)
	other.eventuallyOverlap(s, 3)
	s.deleteNode("c")
	s.eventuallyOverlap(other, 2)
	other.eventuallyOverlap(s, 2)
	other.deleteNHC()
	s.eventuallyOverlap(other, 0)
}
