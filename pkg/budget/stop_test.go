// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// TestStop: of several budgets that stop everything, the first is named. One about some nodes, or at times, is none.
func TestStop(t *testing.T) {
	t.Parallel()
	none := maxConcurrent("0")
	at := func(s *nhcv1alpha1.RemediationBudgetSpec) {
		none(s)
		schedule("0 3 * * *", "UTC", time.Hour)(s)
	}
	require.Empty(t, counts(budgets(budget("a", at), budget("b", maxConcurrent("1")))).Stop())
	why := func(s *nhcv1alpha1.RemediationBudgetSpec) {
		none(s)
		s.Reason = "Ask Kim."
	}
	require.Equal(t, "RemediationBudget b stops everything: Ask Kim.", counts(budgets(budget("a", at), budget("b", why), budget("c", none))).Stop())
	require.Equal(t, "RemediationBudget c stops everything", counts(budgets(budget("c", none))).Stop())
}

// TestNextSteps: only a budget that permits nothing holds a next step, and wakes its health check when that
// changes. A next step takes no place (spec B1.2).
func TestNextSteps(t *testing.T) {
	t.Parallel()
	next := due("n1", 5)
	next.Continues = true
	for name, tc := range map[string]struct {
		option option
		want   string
	}{
		"none":             {maxConcurrent("0"), "b: 1 of at most 0 nodes are under remediation"},
		"a share of none":  {maxConcurrent("0%"), "b: 1 of at most 0 nodes are under remediation"},
		"the smallest":     {maxConcurrent("1%"), ""},
		"one":              {maxConcurrent("1"), ""},
		"no unhealthy one": {maxUnhealthy("0"), ""},
		"an interval":      {minInterval(48 * time.Hour), ""},
		"invalid":          {schedule("never", "UTC", time.Hour), ""},
		"another time": {func(s *nhcv1alpha1.RemediationBudgetSpec) {
			maxConcurrent("0")(s)
			schedule("0 3 * * *", "UTC", time.Hour)(s)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := counts(budgets(budget("b", tc.option)), remediated("a"), notReady("a"))
			refusals := c.Admit(nhc("x"), []Request{next}, noon)
			require.Empty(t, c.reserved)
			if tc.want == "" {
				require.Empty(t, refusals)
				return
			}
			require.Equal(t, map[string]string{"n1": tc.want}, messages(refusals))
			require.Equal(t, 1, c.WaitingNodes("b"))
			require.Empty(t, c.Woken(noon))
			c.SetBudget(Parse(budget("b", maxConcurrent("1"))), nil)
			require.Equal(t, []Asker{nhc("x")}, c.Woken(noon))
			require.Empty(t, c.reserved)
		})
	}
}
