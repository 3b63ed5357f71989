// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const busy = "b: 1 of at most 1 nodes are under remediation"

// one is a budget with a single place.
func one() *Counts { return counts(budgets(budget("b", maxConcurrent("1")))) }

// TestOrder: the node that is unhealthy for the longest comes first, then names decide (spec B4.1).
func TestOrder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		requests []Request
		want     string
	}{
		"B4.1 the longest":                     {requests: []Request{due("a", 1), due("b", 3), due("c", 2)}, want: "b"},
		"B4.1 then by name":                    {requests: []Request{due("c", 1), due("a", 1), due("b", 1)}, want: "a"},
		"B4.3 what cannot begin takes nothing": {requests: []Request{{Node: "a", Since: after(-time.Hour)}, due("b", 3)}, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := one()
			for _, request := range tc.requests {
				c.SetNode(request.Node, notReady("a"))
			}
			refusals := begin(c, nhc("x"), noon, tc.requests...)
			require.NotContains(t, refusals, tc.want)
			require.NotNil(t, c.reservationOf(tc.want))
			require.Len(t, c.reserved, 1)
		})
	}
}

// TestOrderOverAskers: over all health checks that are known to wait (spec B4.1).
func TestOrderOverAskers(t *testing.T) {
	t.Parallel()
	c := one()
	c.SetNode("running", remediated("a"))
	require.Equal(t, map[string]string{"old": busy}, begin(c, nhc("x"), noon, due("old", 10)))
	require.Equal(t, map[string]string{"new": busy}, begin(c, nhc("y"), noon, due("new", 5)))
	require.Equal(t, map[string]string{"stuck": busy}, begin(c, nhc("z"), noon, Request{Node: "stuck", Since: after(-time.Hour)}))
	require.Empty(t, c.Woken(noon))
	require.Equal(t, 2, c.WaitingNodes("b"), "stuck waits for something else, too")

	c.SetNode("running", healthy("a"))
	require.Equal(t, map[string]string{"new": busy}, begin(c, nhc("y"), noon, due("new", 5)), "old comes first, and has not been asked yet")
	require.Equal(t, []Asker{nhc("x"), nhc("z")}, c.Woken(noon), "one that cannot begin learns that its budget is not the cause any more")
	require.Empty(t, c.Woken(noon), "each once")
	require.Empty(t, begin(c, nhc("x"), noon, due("old", 10)))
	require.Empty(t, c.Woken(noon))
	require.Equal(t, map[string]string{"new": busy}, begin(c, nhc("y"), noon, due("new", 5)))
	require.Equal(t, map[string]string{"older": busy}, begin(c, nhc("v"), noon, due("older", 60)), "who has begun is not pushed aside")
	require.Equal(t, map[string]string{"stuck": busy}, begin(c, nhc("z"), noon, Request{Node: "stuck", Since: after(-time.Hour)}))

	c.SetNode("old", remediated("a"))
	require.Empty(t, begin(c, nhc("x"), noon), "the CR is there")
	require.Empty(t, c.Woken(noon))
	c.SetNode("old", healthy("a"))
	require.Equal(t, []Asker{nhc("v")}, c.Woken(noon), "of two that wait as long the first by name")
}

// TestSecondPlace: a node that waits for another budget does not delay those behind it.
func TestSecondPlace(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", maxConcurrent("1")), budget("zones", byZone, maxUnhealthy("1"))))
	c.SetNode("broken", notReady("a"))
	c.SetNode("old", notReady("a"))
	c.SetNode("new", notReady("b"))
	require.Equal(t, map[string]string{"old": "zones a: 2 of at most 1 nodes are not healthy"}, begin(c, nhc("x"), noon, due("old", 10)))
	require.Empty(t, begin(c, nhc("y"), noon, due("new", 1)))
	c.SetNode("broken", healthy("a"))
	require.Empty(t, c.Woken(noon), "now the other budget refuses it")
	require.Equal(t, 1, c.WaitingNodes("b"))
	require.Zero(t, c.WaitingNodes("zones"))
}

// TestPrecedence: an asker that was woken and does not look does not delay the others for long.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	c := one()
	c.SetNode("running", remediated("a"))
	begin(c, nhc("x"), noon, due("old", 10))
	begin(c, nhc("y"), noon, due("new", 5))
	c.SetNode("running", healthy("a"))
	require.Zero(t, c.NextChange(noon))
	require.Equal(t, []Asker{nhc("x")}, c.Woken(noon))
	require.Equal(t, after(precedence), c.NextChange(noon))

	require.Empty(t, c.Woken(after(precedence-1)))
	require.Equal(t, map[string]string{"new": busy}, begin(c, nhc("y"), after(precedence-1), due("new", 5)))
	require.Equal(t, []Asker{nhc("y")}, c.Woken(after(precedence)), "somebody else has to learn of it")
	require.Equal(t, after(2*precedence), c.NextChange(after(precedence)))
	require.Empty(t, begin(c, nhc("y"), after(precedence), due("new", 5)))

	require.Empty(t, c.Woken(after(precedence)))
	require.Zero(t, c.NextChange(after(precedence)), "it waits as before")
	c.SetNode("new", healthy("a"))
	begin(c, nhc("y"), after(time.Minute))
	require.Equal(t, []Asker{nhc("x")}, c.Woken(after(time.Minute)), "it has precedence again")
	require.Equal(t, map[string]string{"new": busy}, begin(c, nhc("y"), after(time.Minute), due("new", 5)))
}

// TestPrecedenceIsOfTheAsker: what else becomes possible for it does not renew it.
func TestPrecedenceIsOfTheAsker(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", byZone, maxConcurrent("1"))))
	c.SetNode("a1", remediated("a"))
	c.SetNode("b1", remediated("b"))
	c.SetNode("a2", notReady("a"))
	c.SetNode("b2", notReady("b"))
	c.SetNode("b3", notReady("b"))
	begin(c, nhc("x"), noon, due("a2", 10), due("b2", 10))
	begin(c, nhc("y"), noon, due("b3", 5))
	c.SetNode("a1", healthy("a"))
	require.Equal(t, []Asker{nhc("x")}, c.Woken(noon))
	c.SetNode("b1", healthy("b"))
	require.Empty(t, c.Woken(after(time.Second)), "it will see when it looks")
	require.Equal(t, []Asker{nhc("y")}, c.Woken(after(precedence)))
	require.Empty(t, begin(c, nhc("y"), after(precedence), due("b3", 5)))
}

// TestMinInterval: the beginning counts from the reservation on, also if no CR is ever seen.
func TestMinInterval(t *testing.T) {
	t.Parallel()
	pace := func() *Counts {
		return counts(budgets(budget("b", byZone, minInterval(5*time.Minute))), notReady("a"), notReady("a"), notReady("b"))
	}
	const refused = "b a: next begin at 2026-01-07T12:05:00Z"
	t.Run("two at once", func(t *testing.T) {
		t.Parallel()
		c := pace()
		require.Equal(t, map[string]string{"n2": refused}, begin(c, nhc("x"), noon, due("n1", 2), due("n2", 1), due("n3", 1)))
		require.Equal(t, after(5*time.Minute), c.NextChange(noon))
		require.Empty(t, c.Woken(after(5*time.Minute-1)))
		require.Equal(t, []Asker{nhc("x")}, c.Woken(after(5*time.Minute)))
		require.Empty(t, begin(c, nhc("x"), after(5*time.Minute), due("n2", 1)))
	})
	t.Run("it is over at once", func(t *testing.T) {
		t.Parallel()
		c := pace()
		begin(c, nhc("x"), noon, due("n1", 2))
		require.Equal(t, map[string]string{"n2": refused}, begin(c, nhc("x"), after(time.Minute), due("n2", 1)))
		require.Empty(t, c.reserved)
	})
	t.Run("given back", func(t *testing.T) {
		t.Parallel()
		c := pace()
		require.Len(t, c.Admit(nhc("x"), []Request{due("n1", 2), due("n2", 1)}, noon), 1)
		require.Zero(t, c.NextChange(after(5*time.Minute)))
		c.End(nhc("x"), "n1", NotBegun, noon)
		require.Zero(t, c.NextChange(noon))
		require.Equal(t, []Asker{nhc("x")}, c.Woken(noon))
	})
	t.Run("uncertain: the next attempt need not wait, others do", func(t *testing.T) {
		t.Parallel()
		c := pace()
		c.Admit(nhc("x"), []Request{due("n1", 2)}, noon)
		c.End(nhc("x"), "n1", Uncertain, noon)
		require.Equal(t, map[string]string{"n2": refused}, begin(c, nhc("y"), after(time.Second), due("n2", 1)))
		require.Empty(t, c.Admit(nhc("x"), []Request{due("n1", 2)}, after(2*time.Second)))
		require.Equal(t, map[string]string{"n2": "b a: next begin at 2026-01-07T12:05:02Z"}, begin(c, nhc("y"), after(3*time.Second), due("n2", 1)))
		c.End(nhc("x"), "n1", Uncertain, after(2*time.Second))
		c.Expire(after(2 * time.Minute))
		require.Equal(t, map[string]string{"n2": "b a: next begin at 2026-01-07T12:05:02Z"}, begin(c, nhc("y"), after(2*time.Minute), due("n2", 1)))
	})
	t.Run("a Machine without a Node waits for one that is gone", func(t *testing.T) {
		t.Parallel()
		c := pace()
		begin(c, nhc("x"), noon, due("machine-1", 2))
		begin(c, nhc("x"), noon, due("machine-2", 2))
		require.Empty(t, c.reserved)
		require.Equal(t, after(5*time.Minute), c.NextChange(noon))
		c.Expire(after(5*time.Minute - 1))
		require.Empty(t, c.Woken(after(5*time.Minute-1)))
		c.Expire(after(5 * time.Minute))
		require.Equal(t, []Asker{nhc("x")}, c.Woken(after(5*time.Minute)))
	})
	t.Run("a Machine without a Node joins meanwhile", func(t *testing.T) {
		t.Parallel()
		c := pace()
		begin(c, nhc("x"), noon, due("machine", 2))
		c.SetNode("machine", notReady("c"))
		require.Equal(t, map[string]string{"other": `b "": next begin at 2026-01-07T12:05:00Z`}, begin(c, nhc("y"), after(time.Second), due("other", 1)))
	})
	t.Run("the label changes meanwhile", func(t *testing.T) {
		t.Parallel()
		c := pace()
		begin(c, nhc("x"), noon, due("n1", 2))
		c.SetNode("n1", notReady("c"))
		require.Equal(t, map[string]string{"n2": refused}, begin(c, nhc("y"), after(time.Second), due("n2", 1)))
		require.Empty(t, begin(c, nhc("y"), after(time.Second), due("n3", 1)))
		c.SetNode("n4", notReady("c"))
		require.Equal(t, map[string]string{"n4": "b c: next begin at 2026-01-07T12:05:00Z"}, begin(c, nhc("z"), after(time.Second), due("n4", 1)))
	})
}

// TestScheduleWakes: what a window keeps waiting is woken as it closes (spec B4.2).
func TestScheduleWakes(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", maxConcurrent("0"), schedule("0 12 * * *", "", time.Hour))), notReady("a"))
	require.Equal(t, noon, c.NextChange(after(-time.Hour)).UTC())
	require.Len(t, begin(c, nhc("x"), noon, due("n1", 1)), 1)
	require.Equal(t, after(time.Hour), c.NextChange(noon).UTC())
	require.Empty(t, c.Woken(after(time.Hour-1)))
	require.Equal(t, []Asker{nhc("x")}, c.Woken(after(time.Hour)))
}

// TestBudgetsComeAndGo: what a budget keeps waiting is woken when it changes or goes (spec B4.2).
func TestBudgetsComeAndGo(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", maxConcurrent("0")), budget("a", maxConcurrent("0"))), notReady("a"))
	require.Equal(t, map[string]string{"n1": "a: no remediation may begin"}, begin(c, nhc("x"), noon, due("n1", 1)))
	c.SetBudget(Parse(budget("a", maxConcurrent("1"))), nil)
	require.Empty(t, c.Woken(noon), "the other one still refuses")
	c.RemoveBudget("b")
	require.Equal(t, []Asker{nhc("x")}, c.Woken(noon))
	require.Equal(t, []string{"a"}, c.Budgets())
	require.Nil(t, c.Budget("b"))
	require.Equal(t, "a", c.Budget("a").Name)
	c.RemoveBudget("b")

	c.SetBudget(Parse(budget("a", maxConcurrent("0"))), nil)
	require.Empty(t, c.Woken(noon))
	c.RemoveBudget("a")
	require.Equal(t, []Asker{nhc("x")}, c.Woken(noon), "without any budget")
	require.True(t, c.Waits(nhc("x")))
	require.Empty(t, begin(c, nhc("x"), noon, due("n1", 1)))
	require.False(t, c.Waits(nhc("x")))
	require.Empty(t, c.Woken(noon))
	c.SetNode("n2", notReady("a"))
	c.SetBudget(Parse(budget("a", maxConcurrent("1"))), nil)
	require.Equal(t, map[string]string{"n2": "a: 1 of at most 1 nodes are under remediation"}, begin(c, nhc("y"), noon, due("n2", 1)), "it began when there was no budget")
}
