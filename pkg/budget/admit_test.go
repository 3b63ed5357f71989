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
		candidates []Candidate
		want       string
	}{
		"B4.1 the longest":                     {candidates: []Candidate{due("a", 1), due("b", 3), due("c", 2)}, want: "b"},
		"B4.1 then by name":                    {candidates: []Candidate{due("c", 1), due("a", 1), due("b", 1)}, want: "a"},
		"B4.3 what cannot begin takes nothing": {candidates: []Candidate{{Node: "a", Since: after(-time.Hour)}, due("b", 3)}, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := one()
			for _, candidate := range tc.candidates {
				c.SetNode(candidate.Node, notReady("a"))
			}
			refusals := begin(c, nhc("x"), noon, tc.candidates...)
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
	require.Equal(t, map[string]string{"stuck": busy}, begin(c, nhc("z"), noon, Candidate{Node: "stuck", Since: after(-time.Hour)}))
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
	require.Equal(t, map[string]string{"stuck": busy}, begin(c, nhc("z"), noon, Candidate{Node: "stuck", Since: after(-time.Hour)}))

	c.SetNode("old", remediated("a"))
	require.Empty(t, begin(c, nhc("x"), noon), "the CR is there")
	require.Empty(t, c.Woken(noon))
	c.SetNode("old", healthy("a"))
	require.Equal(t, []Asker{nhc("v")}, c.Woken(noon), "of two that wait as long the first by name")
}

// TestSecondPlace: one that waits for another budget does not hold up those that come after it.
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

// TestPrecedence: one that was woken and does not look does not hold up the others for long.
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

// TestReservation: a place is taken from when the CR is about to be created until the caches show
// it (spec B3.2).
func TestReservation(t *testing.T) {
	t.Parallel()
	started := func() *Counts {
		c := counts(budgets(budget("b", maxConcurrent("1"))), notReady("a"), notReady("a"))
		require.Empty(t, c.Admit(nhc("x"), []Candidate{due("n1", 2)}, noon))
		return c
	}
	taken := func(c *Counts, now time.Time) bool {
		return len(c.Admit(nhc("other"), []Candidate{due("n2", 1)}, now)) > 0
	}
	t.Run("while it is being created", func(t *testing.T) {
		t.Parallel()
		c := started()
		require.True(t, taken(c, after(time.Hour)))
		c.Expire(after(time.Hour))
		require.True(t, taken(c, after(time.Hour)), "as long as that takes")
		c.End(nhc("y"), "n1", NotBegun, noon)
		c.End(nhc("x"), "n2", NotBegun, noon)
		c.End(nhc("x"), "n3", NotBegun, noon)
		require.True(t, taken(c, noon), "who has no reservation ends none")
		c.End(nhc("x"), "n1", NotBegun, noon)
		require.False(t, taken(c, noon))
	})
	t.Run("it has been", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.End(nhc("x"), "n1", Begun, noon)
		c.End(nhc("x"), "n1", NotBegun, noon)
		c.Expire(after(time.Hour))
		require.Zero(t, c.NextChange(noon))
		require.True(t, taken(c, noon))
		c.SetNode("n1", remediated("a"))
		require.Equal(t, tally{observed: 2, unhealthy: 2, remediating: 1}, c.snapshot()["b"][""], "it counts once")
		c.Admit(nhc("x"), nil, noon)
		require.True(t, taken(c, noon))
		c.SetNode("n1", healthy("a"))
		require.False(t, taken(c, noon))
	})
	t.Run("it has been, and a cache shows it at once", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.SetNode("n1", remediatedSince("a", noon))
		require.Equal(t, []string{"n1"}, c.Reserved(nhc("x")))
		require.Empty(t, c.Reserved(nhc("y")))
		c.End(nhc("x"), "n1", Begun, noon)
		require.Empty(t, c.Reserved(nhc("x")), "nothing is left to wait for")
		require.True(t, taken(c, noon))
		c.SetNode("n1", healthy("a"))
		require.False(t, taken(c, noon), "also if nobody looks again")
	})
	t.Run("what a cache has shown is gone when it begins", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.SetNode("n1", remediatedSince("a", noon)) // An earlier attempt, of which nobody knew.
		c.SetNode("n1", notReady("a"))
		c.End(nhc("x"), "n1", Begun, noon)
		require.True(t, taken(c, noon))
		require.Equal(t, []string{"n1"}, c.Reserved(nhc("x")))
	})
	t.Run("it has been, and is shown beside another one", func(t *testing.T) {
		t.Parallel()
		c := counts(budgets(budget("b", maxConcurrent("1"))), remediatedSince("a", noon), notReady("a"))
		require.Empty(t, begin(c, nhc("x"), after(time.Minute), due("n1", 2)), "the node has its place")
		c.SetNode("n1", Node{Exists: true, NotReady: true, Labels: zone("a"), Observation: Observation{Unhealthy: true, Remediating: true, Started: noon}})
		require.NotEmpty(t, c.Reserved(nhc("x")))
		c.SetNode("n1", remediatedSince("a", after(time.Minute)))
		require.Empty(t, c.Reserved(nhc("x")))
	})
	t.Run("it has been, beside another one that began meanwhile", func(t *testing.T) {
		t.Parallel()
		c := counts(budgets(budget("b", minInterval(time.Minute))), notReady("a"), notReady("a"))
		require.Empty(t, c.Admit(nhc("x"), []Candidate{due("n1", 2)}, noon))
		c.SetNode("n1", remediatedSince("a", noon)) // By a health check that no budget held up.
		c.End(nhc("x"), "n1", Begun, after(10*time.Second))
		require.Empty(t, c.Reserved(nhc("x")))
		require.Equal(t, map[string]string{"n2": "b: next begin at 2026-01-07T12:01:10Z"}, begin(c, nhc("y"), after(time.Minute), due("n2", 2)))
	})
	t.Run("it has been, and is over before a cache has shown it", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.End(nhc("x"), "n1", Begun, noon)
		require.Empty(t, c.Admit(nhc("y"), nil, noon))
		require.True(t, taken(c, noon), "another health check does not know")
		c.Admit(nhc("x"), nil, noon)
		require.False(t, taken(c, noon))
	})
	t.Run("nobody knows", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.End(nhc("x"), "n1", Uncertain, noon)
		c.Admit(nhc("x"), nil, noon)
		require.True(t, taken(c, noon))
		require.Equal(t, after(uncertainFor), c.NextChange(noon))
		c.Expire(after(uncertainFor - 1))
		require.True(t, taken(c, after(uncertainFor-1)))
		c.Expire(after(uncertainFor))
		require.False(t, taken(c, after(uncertainFor)))
	})
	t.Run("nobody knows, and it is tried again", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.End(nhc("x"), "n1", Uncertain, noon)
		require.Empty(t, c.Admit(nhc("x"), []Candidate{due("n1", 2)}, after(time.Second)), "its own place is no obstacle")
		c.Expire(after(uncertainFor))
		require.True(t, taken(c, after(uncertainFor)), "it is about to be created")
		c.End(nhc("x"), "n1", NotBegun, after(time.Second))
		require.True(t, taken(c, after(2*time.Second)), "the first attempt may still have succeeded")
		c.Expire(after(uncertainFor))
		require.False(t, taken(c, after(uncertainFor)))
	})
	t.Run("nobody knows, then it has been", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.End(nhc("x"), "n1", Uncertain, noon)
		require.Empty(t, c.Admit(nhc("x"), []Candidate{due("n1", 2)}, after(time.Second)))
		c.End(nhc("x"), "n1", Begun, after(time.Second))
		c.Expire(after(time.Hour))
		require.True(t, taken(c, after(time.Hour)))
		c.Admit(nhc("x"), nil, after(time.Hour))
		require.False(t, taken(c, after(time.Hour)))
	})
	t.Run("a stricter budget binds another attempt", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.End(nhc("x"), "n1", Uncertain, noon)
		c.SetBudget(Parse(budget("b", maxConcurrent("0"))), nil)
		require.Equal(t, map[string]string{"n1": "b: 1 of at most 0 nodes are under remediation"}, messages(c.Admit(nhc("x"), []Candidate{due("n1", 2)}, after(time.Second))))
	})
	t.Run("the health check is deleted", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.End(nhc("x"), "n1", Begun, noon)
		c.Forget(nhc("y"), noon)
		require.Zero(t, c.NextChange(noon))
		c.Forget(nhc("x"), noon)
		require.True(t, taken(c, noon))
		require.Equal(t, 1, c.WaitingNodes("b"))
		c.Forget(nhc("other"), noon)
		require.Zero(t, c.WaitingNodes("b"))
		require.Equal(t, after(uncertainFor), c.NextChange(noon))
		c.Expire(after(uncertainFor))
		require.Zero(t, c.NextChange(after(uncertainFor)))
		require.False(t, taken(c, after(uncertainFor)))
	})
	t.Run("the health check is deleted, and it was not known before", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.End(nhc("x"), "n1", Uncertain, noon)
		c.Forget(nhc("x"), after(time.Second))
		require.Equal(t, after(uncertainFor), c.NextChange(noon), "no longer than before")
	})
	t.Run("the Node is deleted", func(t *testing.T) {
		t.Parallel()
		c := started()
		c.SetNode("n1", Node{})
		require.True(t, taken(c, noon), "it keeps its labels, and so its place")
		c.End(nhc("x"), "n1", NotBegun, noon)
		require.False(t, taken(c, noon))
		require.Equal(t, []string{"n2"}, c.Nodes())
	})
	t.Run("another health check wants the node", func(t *testing.T) {
		t.Parallel()
		c := counts(budgets(budget("b", maxConcurrent("9"), because("Ask Ada"))), notReady("a"))
		c.Admit(nhc("x"), []Candidate{due("n1", 2)}, noon)
		c.End(nhc("x"), "n1", Begun, noon)
		require.Equal(t, map[string]string{"n1": "b: NodeHealthCheck x is about to remediate the node. Ask Ada"}, begin(c, nhc("y"), noon, due("n1", 2)))
		require.Empty(t, c.Woken(noon))
		c.SetNode("n1", remediatedSince("a", noon))
		c.Admit(nhc("x"), nil, noon)
		require.Equal(t, []Asker{nhc("y")}, c.Woken(noon), "the lease decides between the two")
		require.Empty(t, begin(c, nhc("y"), noon, due("n1", 2)))
	})
	t.Run("no budget selects the node", func(t *testing.T) {
		t.Parallel()
		c := counts(budgets(budget("b", selecting("zone", "b"), maxConcurrent("1"))), notReady("a"))
		require.Empty(t, c.Admit(nhc("x"), []Candidate{due("n1", 2)}, noon))
		require.Empty(t, c.Admit(nhc("y"), []Candidate{due("n1", 2)}, noon))
		c.End(nhc("y"), "n1", NotBegun, noon)
		require.Equal(t, nhc("x"), c.reservationOf("n1").asker)
		c.End(nhc("y"), "n1", Begun, noon)
		c.End(nhc("x"), "n1", NotBegun, noon)
		require.Equal(t, nhc("y"), c.reservationOf("n1").asker, "whoever begins has it")
		c.SetBudget(Parse(budget("all", maxConcurrent("1"))), nil)
		require.Equal(t, map[string]string{"n2": "all: 1 of at most 1 nodes are under remediation"}, begin(c, nhc("z"), noon, due("n2", 1)))
	})
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
		require.Len(t, c.Admit(nhc("x"), []Candidate{due("n1", 2), due("n2", 1)}, noon), 1)
		require.Zero(t, c.NextChange(after(5*time.Minute)))
		c.End(nhc("x"), "n1", NotBegun, noon)
		require.Zero(t, c.NextChange(noon))
		require.Equal(t, []Asker{nhc("x")}, c.Woken(noon))
	})
	t.Run("uncertain: the next attempt need not wait, others do", func(t *testing.T) {
		t.Parallel()
		c := pace()
		c.Admit(nhc("x"), []Candidate{due("n1", 2)}, noon)
		c.End(nhc("x"), "n1", Uncertain, noon)
		require.Equal(t, map[string]string{"n2": refused}, begin(c, nhc("y"), after(time.Second), due("n2", 1)))
		require.Empty(t, c.Admit(nhc("x"), []Candidate{due("n1", 2)}, after(2*time.Second)))
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
	require.Equal(t, map[string]string{"n1": "a: 0 of at most 0 nodes are under remediation"}, begin(c, nhc("x"), noon, due("n1", 1)))
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

// TestPlaces: each node that waits has a place among those that the same group of a budget refuses, over all health checks;
// what something else refuses has none (spec B5.1).
func TestPlaces(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", maxConcurrent("1"), byZone)))
	c.SetNode("running", remediated("a"))
	for _, node := range []string{"n1", "n2", "n3", "m1", "held"} {
		c.SetNode(node, notReady("a"))
	}
	c.SetNode("else", remediated("c"))
	c.SetNode("far", notReady("c"))
	begin(c, nhc("x"), noon, due("m1", 20), due("far", 50))
	places := func(asker Asker, candidates ...Candidate) map[string]string {
		places := map[string]string{}
		for node, refusal := range c.Admit(asker, candidates, noon) {
			places[node] = refusal.Place
		}
		return places
	}
	require.Equal(t, map[string]string{"n1": "1st of 4", "n2": "3rd of 4", "n3": "4th of 4", "held": ""},
		places(nhc("y"), due("n1", 30), due("n2", 10), due("n3", 10), Candidate{Node: "held", Since: after(-time.Hour)}))
	require.Equal(t, map[string]string{"m1": "2nd of 4", "far": ""}, places(nhc("x"), due("m1", 20), due("far", 50)))
	require.Equal(t, "b a: 1 of at most 1 nodes are under remediation (2nd of 4 that wait)", c.Admit(nhc("x"), []Candidate{due("m1", 20)}, noon)["m1"].Text())
	require.Equal(t, "b: no", (&Refusal{Message: "b: no"}).Text())
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 102: "102nd", 111: "111th", 100: "100th"} {
		require.Equal(t, want, ordinal(n))
	}
}
