// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestDecisionSince: since when a decision has been the same.
func TestDecisionSince(t *testing.T) {
	t.Parallel()
	now := epoch.Add(time.Minute + 400*time.Millisecond)
	at := func(n int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(n) * time.Second)) }
	decision := func(kind v1alpha1.DecisionType, reason v1alpha1.DecisionReason, since int) *v1alpha1.Decision {
		return &v1alpha1.Decision{Type: kind, Reason: reason, Message: "of the past", Since: at(since)}
	}
	paused := sick("n", refused(v1alpha1.DecidedPaused))
	tests := map[string]struct {
		part       part
		shown      *v1alpha1.Decision
		remembered *v1alpha1.Decision
		want       metav1.Time
	}{
		"the first one, in whole seconds":           {part: paused, want: at(60)},
		"the same, whatever its message":            {part: paused, shown: decision("Held", "Paused", 1), want: at(1)},
		"another reason":                            {part: paused, shown: decision("Held", "GateClosed", 1), want: at(60)},
		"another type":                              {part: paused, shown: decision("Waiting", "Paused", 1), want: at(60)},
		"P8 status was too small for it, or wiped":  {part: paused, remembered: decision("Held", "Paused", 2), want: at(2)},
		"something else is remembered":              {part: paused, remembered: decision("Held", "GateClosed", 2), want: at(60)},
		"status knows best":                         {part: paused, shown: decision("Held", "Paused", 1), remembered: decision("Held", "Paused", 2), want: at(1)},
		"P8 status was written, the answer lost":    {part: paused, shown: decision("Held", "Paused", 3), remembered: decision("Held", "GateClosed", 2), want: at(3)},
		"a remediation at work is one reason, too":  {part: sick("n", own(testCR("n", "1"))), shown: decision("Remediating", "StepRunning", 1), want: at(1)},
		"a remediation that follows is another one": {part: sick("n", own(testCR("n", "1"))), shown: decision("Held", "Paused", 1), want: at(60)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.now = now
			s.nhc.Spec.PauseRequests = []string{"x"}
			s.nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "n", Decision: tc.shown}}
			if tc.remembered != nil {
				s.state.entries = []v1alpha1.UnhealthyNode{{Name: "n", Decision: tc.remembered}}
			}
			entries := s.result(tc.part).Status.UnhealthyNodes
			require.Len(t, entries, 1)
			require.Equal(t, tc.want, entries[0].Decision.Since)
			require.NotEqual(t, "of the past", entries[0].Decision.Message)
		})
	}
	require.Nil(t, newStory(t).result(soon("n"), sick("m")).Status.UnhealthyNodes[0].Decision, "a plan without a reason has no decision")
}
