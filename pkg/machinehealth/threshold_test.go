// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// verdicts returns a number of healthy verdicts, and one of each of these states.
func verdicts(healthy int, others ...State) []Verdict {
	all := slices.Repeat([]Verdict{{}}, healthy)
	for _, state := range others {
		all = append(all, Verdict{State: state})
	}
	return all
}

func times(n int) []State { return slices.Repeat([]State{Unhealthy}, n) }

func TestThreshold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		maximum   intstr.IntOrString
		verdicts  []Verdict
		blocked   bool
		unhealthy int
		left      int
	}{
		"M7.1 5 of 10 at 50%":                       {maximum: intstr.FromString("50%"), verdicts: verdicts(5, times(5)...), unhealthy: 5},
		"M7.1 6 of 10 at 50%, the example":          {maximum: intstr.FromString("50%"), verdicts: verdicts(4, times(6)...), unhealthy: 6, blocked: true},
		"M7.2 1 of 5 at 10%":                        {maximum: intstr.FromString("10%"), verdicts: verdicts(4, times(1)...), unhealthy: 1, blocked: true},
		"M7.2 0 of 5 at 0":                          {maximum: intstr.FromInt32(0), verdicts: verdicts(5)},
		"M7.2 1 of 5 at 0":                          {maximum: intstr.FromInt32(0), verdicts: verdicts(4, times(1)...), unhealthy: 1, blocked: true},
		"M7.2 5 of 5 at 100%":                       {maximum: intstr.FromString("100%"), verdicts: verdicts(0, times(5)...), unhealthy: 5},
		"M7.2 5 of 5 at 9":                          {maximum: intstr.FromString("9"), verdicts: verdicts(0, times(5)...), unhealthy: 5, left: 4},
		"M7.3 more may become unhealthy":            {maximum: intstr.FromString("50%"), verdicts: verdicts(9, times(1)...), unhealthy: 1, left: 4},
		"M7.3 without targets all numbers are 0":    {maximum: intstr.FromInt32(5)},
		"M1.4 all that is not healthy is unhealthy": {maximum: intstr.FromString("100%"), verdicts: verdicts(1, UnderRemediation, NotStarted, SoonUnhealthy, Unhealthy, Deleting), unhealthy: 5, left: 1},
		"M3.4 what cannot be understood blocks":     {maximum: intstr.FromString("most"), verdicts: verdicts(4, times(1)...), unhealthy: 1, blocked: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Summarize(tc.maximum, tc.verdicts, 7, epoch)
			require.Equal(t, []any{len(tc.verdicts), tc.unhealthy, len(tc.verdicts) - tc.unhealthy, 7}, []any{s.Expected, s.Unhealthy(), s.Healthy, s.Ignored})
			require.Equal(t, !tc.blocked, s.Allowed())
			require.Equal(t, tc.left, s.RemediationsAllowed())
		})
	}
}

func TestSummaryExplains(t *testing.T) {
	t.Parallel()
	const text = "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy (total: 3, unhealthy: 2, maxUnhealthy: "
	for maximum, comesTo := range map[intstr.IntOrString]string{
		intstr.FromString("50%"): ". 50% of 3 allows 1.", // FR-326
		intstr.FromString("0%"):  ". 0% of 3 allows 0.",
		intstr.FromInt32(-1):     "", // A number says what it allows.
		intstr.FromString("1"):   "",
	} {
		s := Summarize(maximum, verdicts(1, times(2)...), 0, epoch)
		require.Equal(t, text+maximum.String()+")"+comesTo, s.Explain(), "M7.3: as in the spec")
	}
}

// TestSummaryRecheck: the sync wakes up for the next verdict that time changes (spec M6.3, P2).
func TestSummaryRecheck(t *testing.T) {
	t.Parallel()
	at := func(after time.Duration) Verdict {
		return Verdict{State: SoonUnhealthy, Deadline: epoch.Add(after)}
	}
	for name, tc := range map[string]struct {
		verdicts []Verdict
		want     time.Time
	}{
		"M6.3 never":             {verdicts: verdicts(2, Unhealthy)},
		"M6.3 the earliest":      {verdicts: []Verdict{at(time.Minute), at(time.Second), at(time.Hour)}, want: epoch.Add(time.Second)},
		"M6.3 what has happened": {verdicts: []Verdict{at(-time.Second), at(0)}},
		"M6.3 besides what has":  {verdicts: []Verdict{at(-time.Second), at(1)}, want: epoch.Add(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Summarize(intstr.FromInt32(1), tc.verdicts, 0, epoch)
			require.Equal(t, tc.want, s.Recheck)
		})
	}
}

// TestPatience: what was unhealthy while the threshold allowed no remediations has to stay so for its timeout once more.
// A threshold that flaps does not prolong that, and a time in the future is not believed (spec M7.6).
func TestPatience(t *testing.T) {
	t.Parallel()
	now, timeout := epoch.Add(time.Hour), 5*time.Minute
	held := func(left time.Duration) func(*Target) {
		return func(t *Target) {
			t.Decided.Reason = v1alpha1.DecidedGateClosed
			if left != 0 {
				t.Decided.NextCheckTime = new(metav1.NewTime(now.Add(left)))
			}
		}
	}
	never := func(t *Target) {
		t.Machine.Node, t.Verdict = "", Verdict{State: Unhealthy, Trigger: v1beta1.TriggerNodeStartupTimeout, Deadline: epoch}
	}
	for name, tc := range map[string]struct {
		target Target
		closed bool
		left   time.Duration // 0: it begins, or nothing says when.
	}{
		"the threshold has just opened": {target: target(machine("m"), held(0)), left: timeout},
		"it waits":                      {target: target(machine("m"), held(time.Minute)), left: time.Minute},
		"it has waited":                 {target: target(machine("m"), held(-time.Second))},
		"it was not held":               {target: target(machine("m"))},
		"closed":                        {target: target(machine("m"), held(0)), closed: true},
		"closed while it waits":         {target: target(machine("m"), held(time.Minute)), closed: true, left: time.Minute},
		"closed when it has waited":     {target: target(machine("m"), held(-time.Second)), closed: true},
		"the clock was hours ahead":     {target: target(machine("m"), held(3*time.Hour)), left: timeout},
		"it has failed":                 {target: target(machine("m", failedPhase), because(v1beta1.TriggerMachineFailed), held(0))},
		"its Node is missing":           {target: target(machine("m"), because(v1beta1.TriggerNodeMissing), held(0))},
		"it has not started":            {target: target(machine("m"), held(0), never), left: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy()
			p.Criteria.Conditions = []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: timeout}}}
			if tc.closed {
				p.Summary.Expected = 3
			}
			plan := planFor(p, tc.target, now)
			require.Equal(t, !tc.closed && tc.left == 0, plan.Creates())
			if !plan.Creates() {
				require.Equal(t, v1alpha1.DecidedGateClosed, plan.Reason)
			}
			if tc.left == 0 {
				require.Zero(t, plan.Until)
				return
			}
			require.Equal(t, now.Add(tc.left), plan.Until)
			require.Equal(t, now.Add(tc.left), plan.Recheck)
		})
	}
}
