// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// TestParse: what a stored budget may have that cannot be evaluated (spec B2.1, B2.2).
func TestParse(t *testing.T) {
	t.Parallel()
	const neither = "exactly one of nodeSelector and machineSelector must be specified; nodeSelector: {} selects all Nodes"
	const fiveFields = "schedule 1: cron must have five fields: minute, hour, day of the month, month and day of the week"
	with := func(options ...option) *nhcv1alpha1.RemediationBudget {
		return budget("b", append([]option{maxConcurrent("1")}, options...)...)
	}
	for name, tc := range map[string]struct {
		budget *nhcv1alpha1.RemediationBudget
		want   string
	}{
		"maxUnhealthy alone":       {budget: budget("b", maxUnhealthy("30%"))},
		"maxConcurrent alone":      {budget: budget("b", maxConcurrent("0"))},
		"minInterval alone":        {budget: budget("b", minInterval(1))},
		"Machines":                 {budget: with(ofMachines)},
		"everything":               {budget: budget("b", maxUnhealthy("0%"), maxConcurrent("100%"), minInterval(time.Hour), byZone, schedule("0 8-18 * 1,JUL MON-FRI", "Europe/Berlin", time.Hour))},
		"more than all":            {budget: budget("b", maxUnhealthy("300%"))},
		"a number as text":         {budget: with(func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MaxUnhealthy = new(intstr.FromString("3")) })},
		"spaces around the fields": {budget: with(schedule("  0  8 * *  * ", "", time.Hour))},
		"question marks":           {budget: with(schedule("0 8 ? * ?", "", time.Hour))},
		"a leap day":               {budget: with(schedule("0 0 29 2 *", "", time.Hour))},
		"a day or a weekday":       {budget: with(schedule("0 0 31 2 MON", "", time.Hour))},

		"no limit":    {budget: budget("b"), want: "one of maxUnhealthy, maxConcurrent and minInterval should be specified"},
		"no selector": {budget: with(func(s *nhcv1alpha1.RemediationBudgetSpec) { s.NodeSelector = nil }), want: neither},
		"two selectors": {budget: with(func(s *nhcv1alpha1.RemediationBudgetSpec) {
			s.MachineSelector = &nhcv1alpha1.BudgetMachineSelector{Namespace: "machines"}
		}), want: neither},
		"Machines without a namespace":  {budget: with(ofMachines, func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MachineSelector.Namespace = "" }), want: "machineSelector needs a namespace"},
		"an operator for Machines":      {budget: with(invalidSelector, ofMachines), want: `Invalid machineSelector: "near" is not a valid label selector operator`},
		"an operator that is none":      {budget: with(invalidSelector), want: `Invalid nodeSelector: "near" is not a valid label selector operator`},
		"a negative number":             {budget: budget("b", maxUnhealthy("-1")), want: "maxUnhealthy must be a number or a percentage, and not negative: -1"},
		"no number":                     {budget: budget("b", maxConcurrent("many")), want: "maxConcurrent must be a number or a percentage, and not negative: many"},
		"both wrong: the first speaks":  {budget: budget("b", maxConcurrent("many"), maxUnhealthy("-1%")), want: "maxUnhealthy must be a number or a percentage, and not negative: -1%"},
		"no interval":                   {budget: budget("b", minInterval(0)), want: "minInterval must be positive"},
		"a negative interval":           {budget: with(minInterval(-time.Second)), want: "minInterval must be positive"},
		"an unknown time zone":          {budget: with(schedule("0 8 * * *", "Europe/Atlantis", time.Hour)), want: "schedule 1: unknown time zone Europe/Atlantis"},
		"the zone of the controller":    {budget: with(schedule("0 8 * * *", "Local", time.Hour)), want: "schedule 1: unknown time zone Local"},
		"a zone outside of the files":   {budget: with(schedule("0 8 * * *", "../etc/passwd", time.Hour)), want: "schedule 1: unknown time zone ../etc/passwd"},
		"a zone in cron":                {budget: with(schedule("TZ=UTC 0 8 * * *", "", time.Hour)), want: fiveFields},
		"a zone in cron, in other ways": {budget: with(schedule("CRON_TZ=UTC 0 8 * *", "", time.Hour)), want: fiveFields},
		"a name for cron":               {budget: with(schedule("@daily", "", time.Hour)), want: fiveFields},
		"an interval for cron":          {budget: with(schedule("@every 1h", "", time.Hour)), want: fiveFields},
		"six fields":                    {budget: with(schedule("0 0 8 * * *", "", time.Hour)), want: fiveFields},
		"four fields":                   {budget: with(schedule("0 8 * *", "", time.Hour)), want: fiveFields},
		"no cron":                       {budget: with(schedule("", "", time.Hour)), want: fiveFields},
		"tabs":                          {budget: with(schedule("0\t8\t*\t*\t*", "", time.Hour)), want: fiveFields},
		"an hour too many":              {budget: with(schedule("0 24 * * *", "", time.Hour)), want: "schedule 1: cron: end of range (24) above maximum (23): 24"},
		"a day that no month has":       {budget: with(schedule("0 0 31 2 *", "", time.Hour)), want: `schedule 1: cron "0 0 31 2 *" names no moment`},
		"no minute":                     {budget: with(schedule(", * * * *", "", time.Hour)), want: `schedule 1: cron ", * * * *" names no moment`},
		"no hour":                       {budget: with(schedule("0 , * * *", "", time.Hour)), want: `schedule 1: cron "0 , * * *" names no moment`},
		"no day":                        {budget: with(schedule("0 0 , * *", "", time.Hour)), want: `schedule 1: cron "0 0 , * *" names no moment`},
		"no month":                      {budget: with(schedule("0 0 * , *", "", time.Hour)), want: `schedule 1: cron "0 0 * , *" names no moment`},
		"no weekday":                    {budget: with(schedule("0 0 * * ,", "", time.Hour)), want: `schedule 1: cron "0 0 * * ," names no moment`},
		"no duration":                   {budget: with(schedule("0 8 * * *", "", 0)), want: "schedule 1: duration must be positive"},
		"a negative duration":           {budget: with(schedule("0 8 * * *", "", -time.Hour)), want: "schedule 1: duration must be positive"},
		"the second schedule": {
			budget: with(schedule("0 8 * * *", "", time.Hour), schedule("0 8 * * *", "Mars", time.Hour), schedule("", "", 0)),
			want:   "schedule 2: unknown time zone Mars",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 10 { // The same each time, or the status would change without cause.
				require.Equal(t, tc.want, Parse(tc.budget).Problem)
			}
		})
	}
}

func invalidSelector(s *nhcv1alpha1.RemediationBudgetSpec) {
	s.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "near"}}
}

// TestProblems: a budget that cannot be evaluated refuses all that it selects, and everything if
// it is not known what it selects (spec B2.2).
func TestProblems(t *testing.T) {
	t.Parallel()
	unreadable := budget("b", because("Ask Ada"))
	for name, tc := range map[string]struct {
		budget      *Budget
		want        string
		elsewhere   bool
		description string
	}{
		"the selector cannot be read": {
			budget: Parse(budget("b", maxConcurrent("9"), selecting("zone", "a"), invalidSelector, because("Ask Ada"))),
			want:   `b: Invalid nodeSelector: "near" is not a valid label selector operator. Ask Ada`, elsewhere: true,
		},
		"a limit cannot": {
			budget: Parse(budget("b", maxConcurrent("x"), selecting("zone", "a"), byZone)),
			want:   "b: maxConcurrent must be a number or a percentage, and not negative: x",
		},
		"a schedule cannot, and the other one is closed": {
			budget: Parse(budget("b", maxConcurrent("9"), selecting("zone", "a"), schedule("0 0 * * *", "", time.Minute), schedule("x", "", time.Minute))),
			want:   "b: schedule 2: cron must have five fields: minute, hour, day of the month, month and day of the week",
		},
		"nothing can": {
			budget: Unreadable(unreadable, "spec.reason: Invalid type"),
			want:   "b: spec.reason: Invalid type", elsewhere: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := NewCounts()
			c.SetNode("a", healthy("a"))
			c.SetNode("b", healthy("b"))
			c.SetBudget(tc.budget, nil)
			want := map[string]string{"a": tc.want}
			if tc.elsewhere {
				want["b"], want["machine"] = tc.want, tc.want
			}
			refusals := c.Admit(nhc("x"), []Request{due("a", 1), due("b", 1), due("machine", 1)}, noon)
			require.Equal(t, want, messages(refusals))
			require.Zero(t, refusals["a"].Until)
			require.Zero(t, c.NextChange(noon))
			require.Equal(t, new(int32(0)), c.Status("b", &nhcv1alpha1.RemediationBudgetStatus{}, noon).RemediationsAllowed)
		})
	}
	require.Equal(t, &Budget{Name: "b", UID: "b", Generation: 1, Problem: "?", selector: Unreadable(unreadable, "").selector}, Unreadable(unreadable, "?"))
}
