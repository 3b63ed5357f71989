// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// FuzzSchedule: whatever a schedule says, at any instant, the budget applies or it does not, and
// the next change is found.
func FuzzSchedule(f *testing.F) {
	for _, cron := range []string{
		"* * * * *", "0 8 * * MON-FRI", "30 2 * * *", "0 0 29 2 *", "0 0 30 2 *", "0 0 31 2 SUN", "*/7 */5 */3 */2 */2", ", , , , ,", "0 0 1-31/2,15 JAN-DEC ?",
		"TZ=UTC 0 8 * * *", "@daily", "@every 1ns", "0 0 0 8 * *", "0 8 * *", "", " ", "59 23 31 12 6", "0-59/59 0-23/23 * * 0-6", "*-5 * * * *", "5/0 * * * *", "99999999999999999999 * * * *", "0 0 * * 7",
	} {
		f.Add(cron, "Europe/Berlin", int64(8*time.Hour), int64(1774746000))
		f.Add(cron, "", int64(1), int64(0))
		f.Add(cron, "Australia/Lord_Howe", int64(math.MaxInt64), int64(1861830000))
	}
	for _, zone := range []string{"UTC", "Local", "local", "Africa/Casablanca", "Africa/Cairo", "Pacific/Apia", "America/Sao_Paulo", "America", "../UTC", "/UTC", "zone.tab", "Etc/GMT+12", "Factory", "posixrules", "\x00", "Europe/Atlantis"} {
		f.Add("30 0,2 * * *", zone, int64(90*time.Minute), int64(1861833600))
		f.Add("30 0,2 29 2 *", zone, int64(time.Hour), int64(3976214400))
	}
	f.Fuzz(func(t *testing.T, cron, zone string, d, seconds int64) {
		w, err := parseWindow(&nhcv1alpha1.BudgetSchedule{Cron: cron, TimeZone: zone, Duration: metav1.Duration{Duration: time.Duration(d)}})
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.Positive(t, d)
		now := time.Unix(abs(seconds)%253_402_300_800, 0) // Before the year 10000.
		moment := w.schedule.Next(now)
		if moment.IsZero() {
			return // None in five years.
		}
		require.True(t, moment.After(now))
		require.Equal(t, moment, w.schedule.Next(moment.Add(-1)), "it does not depend on where the search begins")

		windows := []window{w}
		before, at := phaseAt(windows, moment.Add(-1)), phaseAt(windows, moment)
		require.True(t, at.applies, "it opens")
		require.Equal(t, w.schedule.Next(moment.Add(-1-w.duration)).Before(moment), before.applies)
		for _, phase := range []phase{before, at, phaseAt(windows, now)} {
			require.True(t, phase.covers(phase.from))
			require.True(t, phase.recheck.After(phase.from))
			require.True(t, phase.until.IsZero() || phase.until.Equal(phase.recheck))
			require.Equal(t, phase.applies, phaseAt(windows, phase.recheck.Add(-1)).applies, "until then")
			if !phase.until.IsZero() {
				require.NotEqual(t, phase.applies, phaseAt(windows, phase.until).applies, "and no longer")
			}
		}
	})
}

func abs(n int64) int64 {
	if n < 0 {
		return -(n + 1)
	}
	return n
}

// FuzzParse: whatever a budget says, it can be evaluated, or refuses what it selects.
func FuzzParse(f *testing.F) {
	for _, limit := range []string{"", "0", "1", "-1", "30%", "0%", "100%", "101%", "-1%", "99999999999999999999", "99999999999999999999%", "%", "1.5", "many", " 1", "+1"} {
		f.Add(limit, "", int64(0), "", "zone", int32(0), false)
		f.Add("", limit, int64(time.Hour), "In", "", int32(math.MaxInt32), true)
		f.Add(limit, limit, int64(-1), "near", "a/b", int32(math.MinInt32), true)
	}
	f.Fuzz(func(t *testing.T, unhealthy, concurrent string, interval int64, operator, key string, number int32, numbers bool) {
		b := budget("b")
		b.Spec.TopologyKey = key
		limit := func(text string) *intstr.IntOrString {
			switch {
			case text == "":
				return nil
			case numbers:
				return new(intstr.FromInt32(number))
			}
			return new(intstr.FromString(text))
		}
		b.Spec.MaxUnhealthy, b.Spec.MaxConcurrent = limit(unhealthy), limit(concurrent)
		if interval != 0 {
			b.Spec.MinInterval = &metav1.Duration{Duration: time.Duration(interval)}
		}
		if operator != "" {
			b.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: []string{"a"}}}
		}
		labels := map[string]string{key: "a"}
		c := counts(budgets(b), Node{Exists: true, Labels: labels}, Node{Exists: true, Labels: labels, NotReady: true}, remediatedSince("a", noon))
		old := c.Status("b", &nhcv1alpha1.RemediationBudgetStatus{}, noon)
		require.GreaterOrEqual(t, *old.ObservedNodes, *old.NotHealthyNodes)
		require.GreaterOrEqual(t, *old.NotHealthyNodes, *old.RemediatingNodes)
		for i := range old.Groups {
			if allowed := old.Groups[i].RemediationsAllowed; allowed != nil {
				require.GreaterOrEqual(t, *allowed, int32(0))
				require.LessOrEqual(t, *old.RemediationsAllowed, *allowed)
			}
		}
		refusal, selected := c.Admit(nhc("x"), []Request{due("n2", 1)}, noon)["n2"], len(c.nodes["n2"].groups) > 0
		require.True(t, selected || refusal == nil)
		if selected && c.Budget("b").Problem != "" {
			require.Equal(t, "b: "+c.Budget("b").Problem, refusal.Message)
			require.Equal(t, int32(0), *old.RemediationsAllowed)
		}
		if refusal == nil {
			c.End(nhc("x"), "n2", NotBegun, noon)
		} else {
			require.True(t, refusal.Until.IsZero() || refusal.Until.After(noon))
		}
		if len(c.waiting) == 0 {
			require.Same(t, old, c.Status("b", old, noon))
		}
	})
}
