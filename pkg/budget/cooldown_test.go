// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

func cooldown(d time.Duration) option {
	return func(s *nhcv1alpha1.RemediationBudgetSpec) { s.Cooldown = &metav1.Duration{Duration: d} }
}

// pastOf is what a status says by itself.
func pastOf(status *status, now time.Time) *Past {
	return PastOf(&nhcv1alpha1.RemediationBudget{Status: *status}, now)
}

// TestCooldown: after maxUnhealthy was exceeded, nothing begins until the group has been within it for cooldown: the last
// nodes of an outage are still booting when the group comes back within it (spec B3.6).
func TestCooldown(t *testing.T) {
	t.Parallel()
	b := budget("b", byZone, maxUnhealthy("1"), cooldown(time.Minute))
	ready := func(c *Counts, names ...string) {
		for _, name := range names {
			c.SetNode(name, healthy("a"))
		}
	}
	outage := func() *Counts {
		c := counts(budgets(b), notReady("a"), notReady("a"), notReady("a"), notReady("b"))
		c.Woken(noon)
		return c
	}
	restart := func(c *Counts, at time.Time, nodes ...Node) *Counts {
		stored := b.DeepCopy()
		stored.Status = *c.Status("b", &status{}, at)
		next := counts(nil, nodes...)
		next.SetBudget(Parse(b), PastOf(stored, at))
		return next
	}
	regroup := func(c *Counts) *Counts {
		c.SetBudget(Parse(budget("b", maxUnhealthy("2"), cooldown(time.Minute))), nil)
		return c
	}
	const exceeded, cools = "b a: 3 of at most 1 nodes are not healthy", "b a: cooldown, next begin at 2026-01-07T12:01:10Z"
	for name, tc := range map[string]struct {
		happens func() *Counts
		now     time.Duration
		refused string
		allowed int32
		within  time.Duration // Zero: status has no such time.
	}{
		"exceeded": {happens: outage, now: time.Hour, refused: exceeded},
		"just within": {happens: func() *Counts {
			c := outage()
			ready(c, "n2", "n3")
			return c
		}, now: 10 * time.Second, refused: cools, within: 10 * time.Second},
		"within for a second less": {happens: func() *Counts {
			c := outage()
			ready(c, "n2", "n3")
			c.Woken(after(10 * time.Second))
			return c
		}, now: 70*time.Second - 1, refused: cools, within: 10 * time.Second},
		"cooled down": {happens: func() *Counts {
			c := outage()
			ready(c, "n2", "n3")
			c.Woken(after(10 * time.Second))
			return c
		}, now: 70 * time.Second, allowed: 1},
		"exceeded again meanwhile": {happens: func() *Counts {
			c := outage()
			ready(c, "n2", "n3")
			c.Woken(after(-30 * time.Second))
			c.SetNode("n2", notReady("a"))
			c.Woken(noon)
			ready(c, "n2")
			return c
		}, now: 10 * time.Second, refused: cools, within: 10 * time.Second},
		"never exceeded": {happens: func() *Counts {
			return counts(budgets(b), notReady("a"), healthy("a"))
		}, now: 10 * time.Second, allowed: 1},
		"the next leader knows it from status": {happens: func() *Counts {
			c := outage()
			ready(c, "n2", "n3")
			c.Woken(after(10 * time.Second))
			return restart(c, after(20*time.Second), notReady("a"), healthy("a"), healthy("a"))
		}, now: 30 * time.Second, refused: cools, within: 10 * time.Second},
		"the leader died in the outage": {happens: func() *Counts {
			return restart(outage(), noon, notReady("a"), healthy("a"), healthy("a"))
		}, now: 10 * time.Second, refused: cools, within: 10 * time.Second},
		"the next leader cannot read the Machines at first": {happens: func() *Counts {
			ofZones := budget("b", byZone, maxUnhealthy("1"), cooldown(time.Minute), ofMachines)
			ofZones.Status.Groups = []nhcv1alpha1.BudgetGroup{{Name: "a", ObservedNodes: 3, NotHealthyNodes: 3}}
			c := NewCounts()
			c.SetBudget(Unreadable(ofZones, "not read yet"), PastOf(ofZones, noon))
			c.Woken(noon)
			c.SetBudget(Parse(ofZones), nil)
			c.Woken(after(10 * time.Second))
			for _, name := range []string{"n1", "n2", "n3"} {
				c.SetNode(name, Node{Exists: true, NotReady: name == "n1", Machine: Machine{Exists: true, Namespace: "machines", Labels: zone("a")}})
			}
			return c
		}, now: 20 * time.Second, refused: cools, within: 10 * time.Second},
		"the grouping changes": {happens: func() *Counts {
			c := outage()
			ready(c, "n2", "n3")
			c.Woken(after(5 * time.Second))
			return regroup(c)
		}, now: 10 * time.Second, refused: "b: cooldown, next begin at 2026-01-07T12:01:10Z", within: 10 * time.Second},
		"the grouping changes, and has cooled down": {happens: func() *Counts {
			c := outage()
			ready(c, "n2", "n3")
			c.Woken(after(5 * time.Second))
			regroup(c).Woken(after(10 * time.Second))
			return c
		}, now: 70 * time.Second, allowed: 2},
		"the grouping changes while there is no node": {happens: func() *Counts {
			c := outage()
			ready(c, "n2", "n3")
			c.Woken(after(5 * time.Second))
			for _, name := range []string{"n1", "n2", "n3", "n4"} {
				c.SetNode(name, Node{})
			}
			regroup(c).Woken(after(6 * time.Second))
			c.SetNode("n1", notReady("a"))
			c.SetNode("n2", notReady("b"))
			return c
		}, now: 10 * time.Second, refused: "b: cooldown, next begin at 2026-01-07T12:01:10Z", within: 10 * time.Second},
		"the grouping changes, and nothing cools down": {happens: func() *Counts {
			return regroup(counts(budgets(b), notReady("a"), healthy("a")))
		}, now: 10 * time.Second, allowed: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tc.happens()
			refused := messages(c.Admit(nhc("x"), []Request{{Node: "n1", Since: noon}}, after(tc.now)))
			require.Equal(t, tc.refused, refused["n1"])
			group := c.Status("b", &status{}, after(tc.now)).Groups[0]
			if group.Name == "b" { // Those that allow the fewest come first.
				group = c.Status("b", &status{}, after(tc.now)).Groups[1]
			}
			require.Equal(t, tc.allowed, *group.RemediationsAllowed)
			if tc.within == 0 {
				require.Nil(t, group.WithinSince)
			} else {
				require.Equal(t, after(tc.within), group.WithinSince.Time)
				require.Equal(t, after(tc.within+time.Minute), c.NextChange(after(tc.now)), "who waits is woken")
			}
		})
	}
}

// TestCooldownOfOneGroup: an outage of one zone holds up no other.
func TestCooldownOfOneGroup(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", byZone, maxUnhealthy("1"), cooldown(time.Minute))), notReady("a"), notReady("a"), notReady("b"))
	c.Woken(noon)
	c.SetNode("n2", healthy("a"))
	require.Equal(t, map[string]string{"n1": "b a: cooldown, next begin at 2026-01-07T12:01:00Z"}, begin(c, nhc("x"), noon, due("n1", 1), due("n3", 1)))
	require.Empty(t, begin(c, nhc("x"), after(time.Minute), due("n1", 1)))
}

// TestCooldownOfAnEmptyGroup: the nodes of a zone are replaced after an outage. Status keeps the group until it has cooled
// down.
func TestCooldownOfAnEmptyGroup(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", byZone, maxUnhealthy("1"), cooldown(time.Minute))), notReady("a"), notReady("a"), healthy("b"))
	c.Woken(noon)
	c.SetNode("n1", Node{})
	c.SetNode("n2", Node{})
	c.Woken(noon)
	require.Len(t, c.Status("b", &status{}, after(time.Minute-1)).Groups, 2)
	require.Len(t, c.Status("b", &status{}, after(time.Minute)).Groups, 1)
	require.Equal(t, after(time.Minute), c.NextChange(noon))
}
