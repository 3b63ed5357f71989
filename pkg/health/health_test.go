// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func rule(typ corev1.NodeConditionType, status corev1.ConditionStatus, duration time.Duration) v1alpha1.UnhealthyCondition {
	return v1alpha1.UnhealthyCondition{Type: typ, Status: status, Duration: metav1.Duration{Duration: duration}}
}

func condition(typ corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{Type: typ, Status: status, LastTransitionTime: metav1.NewTime(since)}
}

func TestJudge(t *testing.T) {
	rules := []v1alpha1.UnhealthyCondition{
		rule(corev1.NodeReady, corev1.ConditionFalse, 5*time.Minute),
		rule(corev1.NodeReady, corev1.ConditionUnknown, 5*time.Minute),
		rule("Disk", corev1.ConditionTrue, time.Minute),
	}
	unknown := func(state State) Verdict {
		return Verdict{State: state, Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Since: epoch, Deadline: epoch.Add(5 * time.Minute)}
	}
	tests := map[string]struct {
		conditions []corev1.NodeCondition
		now        time.Time
		want       Verdict
	}{
		"7.2 no condition at all never matches": {now: epoch, want: Verdict{}},
		"7.2 another status does not match": {
			conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionTrue, epoch)},
			now:        epoch.Add(time.Hour),
			want:       Verdict{},
		},
		"7.3 one nanosecond before the deadline": {
			conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionUnknown, epoch)},
			now:        epoch.Add(5*time.Minute - 1),
			want:       unknown(SoonUnhealthy),
		},
		"7.3 exactly at the deadline": {
			conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionUnknown, epoch)},
			now:        epoch.Add(5 * time.Minute),
			want:       unknown(Unhealthy),
		},
		"7.3 any expired match suffices": {
			conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionFalse, epoch.Add(time.Hour)),
				condition("Disk", corev1.ConditionTrue, epoch),
			},
			now:  epoch.Add(time.Hour),
			want: Verdict{State: Unhealthy, Type: "Disk", Status: corev1.ConditionTrue, Since: epoch, Deadline: epoch.Add(time.Minute)},
		},
		"7.4 the shortest remaining time counts": {
			conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionUnknown, epoch),
				condition("Disk", corev1.ConditionTrue, epoch.Add(4*time.Minute+30*time.Second)),
			},
			now:  epoch.Add(4*time.Minute + 40*time.Second),
			want: unknown(SoonUnhealthy),
		},
		"7.2 a match without lastTransitionTime never expires": {
			conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionUnknown, time.Time{})},
			now:        epoch.Add(time.Hour),
			want:       Verdict{State: SoonUnhealthy, Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
		},
		"7.2 another match expires all the same": {
			conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionUnknown, time.Time{}),
				condition("Disk", corev1.ConditionTrue, epoch),
			},
			now:  epoch.Add(time.Minute),
			want: Verdict{State: Unhealthy, Type: "Disk", Status: corev1.ConditionTrue, Since: epoch, Deadline: epoch.Add(time.Minute)},
		},
		"7.2 a transition in the future counts from now": {
			conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionUnknown, epoch)},
			now:        epoch.Add(-time.Hour),
			want: Verdict{
				State: SoonUnhealthy, Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
				Since: epoch.Add(-time.Hour), Doubt: "its reporter's clock is 3600s ahead", Deadline: epoch.Add(-55 * time.Minute),
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Judge(rules, Evidence{Conditions: tc.conditions}, tc.now))
			require.Equal(t, tc.want.State != Healthy, Matches(rules, tc.conditions))
		})
	}
}

func TestJudgeZeroDuration(t *testing.T) {
	t.Parallel()
	rules := []v1alpha1.UnhealthyCondition{rule(corev1.NodeReady, corev1.ConditionFalse, 0)}
	verdict := Judge(rules, Evidence{Conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionFalse, epoch)}}, epoch)
	require.Equal(t, Unhealthy, verdict.State)
}

// TestJudgeIgnoresOrder holds for any rules and conditions: neither the order of
// the rules nor that of the conditions changes the state (P7).
func TestJudgeIgnoresOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	types := []corev1.NodeConditionType{"A", "B", "C"}
	statuses := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}
	for range 2000 {
		var rules []v1alpha1.UnhealthyCondition
		for range random.IntN(5) {
			rules = append(rules, rule(types[random.IntN(3)], statuses[random.IntN(3)], time.Duration(random.IntN(100))*time.Second))
		}
		var conditions []corev1.NodeCondition
		for range random.IntN(4) {
			since := epoch.Add(time.Duration(random.IntN(100)) * time.Second)
			if random.IntN(5) == 0 {
				since = time.Time{}
			}
			conditions = append(conditions, condition(types[random.IntN(3)], statuses[random.IntN(3)], since))
		}
		now := epoch.Add(time.Duration(random.IntN(200)) * time.Second)
		before := Judge(rules, Evidence{Conditions: conditions}, now)
		random.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		random.Shuffle(len(conditions), func(i, j int) { conditions[i], conditions[j] = conditions[j], conditions[i] })
		after := Judge(rules, Evidence{Conditions: conditions}, now)
		require.Equal(t, before.State, after.State)
		require.Equal(t, before.Deadline, after.Deadline)
	}
}

// TestJudgeNode: a Node whose kubelet has never reported is not healthy, where a rule is about that; nothing begins by
// time alone (spec 7.6, FR-321).
func TestJudgeNode(t *testing.T) {
	t.Parallel()
	ready, disk := v1alpha1.UnhealthyCondition{Type: "Ready", Status: "Unknown"}, v1alpha1.UnhealthyCondition{Type: "Disk", Status: "True"}
	full := condition("Disk", "True", epoch)
	for name, tc := range map[string]struct {
		rules      []v1alpha1.UnhealthyCondition
		conditions []corev1.NodeCondition
		want       State
		silent     bool
	}{
		"7.6 no condition at all":             {rules: []v1alpha1.UnhealthyCondition{disk, ready}, want: SoonUnhealthy, silent: true},
		"7.6 only others":                     {rules: []v1alpha1.UnhealthyCondition{ready}, conditions: []corev1.NodeCondition{full}, want: SoonUnhealthy, silent: true},
		"7.6 no rule is about Ready":          {rules: []v1alpha1.UnhealthyCondition{disk}, want: Healthy},
		"7.6 it has reported":                 {rules: []v1alpha1.UnhealthyCondition{ready}, conditions: []corev1.NodeCondition{condition("Ready", "True", epoch)}, want: Healthy},
		"7.2 another match has expired":       {rules: []v1alpha1.UnhealthyCondition{ready, disk}, conditions: []corev1.NodeCondition{full}, want: Unhealthy},
		"7.2 what has reported without times": {rules: []v1alpha1.UnhealthyCondition{ready}, conditions: []corev1.NodeCondition{condition("Ready", "Unknown", time.Time{})}, want: SoonUnhealthy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict := JudgeNode(tc.rules, Evidence{Conditions: tc.conditions}, epoch.Add(time.Hour))
			require.Equal(t, tc.want, verdict.State)
			require.Equal(t, tc.silent, verdict.NeverReported())
			require.Equal(t, tc.want == Healthy, SurelyHealthy(tc.rules, tc.conditions))
			if tc.silent {
				require.Zero(t, verdict.Deadline)
				require.Equal(t, Healthy, Judge([]v1alpha1.UnhealthyCondition{ready}, Evidence{Conditions: tc.conditions}, epoch).State, "MachineHealthChecks go by nodeStartupTimeout")
			}
		})
	}
}

// TestSummary: which nodes count as what (spec 7.1, 7.6, 9.1).
func TestSummary(t *testing.T) {
	t.Parallel()
	summary := NewSummary(10)
	require.Equal(t, Summary{Observed: 10, Healthy: 10}, summary)
	summary.Add(Verdict{}, false)
	summary.Add(Verdict{}, true)
	summary.Add(Verdict{State: Unhealthy, Deadline: epoch}, true)
	summary.Add(Verdict{State: SoonUnhealthy, Deadline: epoch.Add(90 * time.Second)}, false)
	summary.Add(Verdict{State: SoonUnhealthy, Deadline: epoch.Add(70 * time.Second)}, false)
	summary.Add(Verdict{State: SoonUnhealthy}, false) // Without a time, it never expires.
	require.Equal(t, Summary{Observed: 10, Healthy: 5, SoonUnhealthy: 3, Unhealthy: 1, Remediated: 2, Recheck: epoch.Add(70 * time.Second)}, summary,
		"7.6: neither soon-unhealthy nor remediated nodes are healthy; 7.4: the earliest deadline")
}
