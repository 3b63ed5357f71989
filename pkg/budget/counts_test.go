// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMerge: what several kinds of health checks know of a node.
func TestMerge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ a, b, want Observation }{
		"nothing":                  {},
		"one judges":               {b: Observation{Unhealthy: true}, want: Observation{Unhealthy: true}},
		"the other one does":       {a: Observation{Unhealthy: true}, want: Observation{Unhealthy: true}},
		"one remediates":           {b: Observation{Remediating: true, Started: noon}, want: Observation{Remediating: true, Started: noon}},
		"the other one does, too":  {a: Observation{Remediating: true, Started: after(1)}, b: Observation{Remediating: true, Started: noon}, want: Observation{Remediating: true, Started: after(1)}},
		"the later beginning wins": {a: Observation{Remediating: true, Started: noon}, b: Observation{Remediating: true, Started: after(1)}, want: Observation{Remediating: true, Started: after(1)}},
		"one does not know when":   {a: Observation{Remediating: true, Started: noon}, b: Observation{Unhealthy: true, Remediating: true}, want: Observation{Unhealthy: true, Remediating: true, Started: noon}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.a.Merge(tc.b)
			require.Equal(t, tc.want, tc.a)
		})
	}
}

// TestStopFollowing: a node that is deleted while there is no budget counts without labels, because they
// may have changed. A node that was gone before keeps its groups (spec B3.2).
func TestStopFollowing(t *testing.T) {
	t.Parallel()
	gone := Node{Observation: Observation{Remediating: true}}
	zones := budget("zones", byZone, maxConcurrent("1"))
	c := counts(budgets(zones))
	c.SetNode("stays", healthy("a"))
	c.SetNode("goes", remediated("a"))
	c.SetNode("went", remediated("a"))
	c.SetNode("went", gone)
	c.RemoveBudget("zones")
	c.StopFollowing()
	c.SetBudget(Parse(zones), nil)
	c.SetNode("stays", healthy("a"))
	c.SetNode("goes", gone)
	c.SetNode("went", gone)
	require.Equal(t, map[string]map[string]tally{"zones": {"a": {2, 1, 1}, "": {1, 1, 1}}}, c.snapshot())
}

// TestNodes: in which groups nodes count, as they come, change and go (spec B3.1, B3.2).
func TestNodes(t *testing.T) {
	t.Parallel()
	type groups = map[string]tally
	c := counts(budgets(budget("zones", byZone, maxConcurrent("1")), budget("workers", selecting("role", "worker"), maxConcurrent("1"))))
	for i, step := range []struct {
		name           string
		node           Node
		zones, workers groups
	}{
		{name: "n1", node: healthy("a"), zones: groups{"a": {1, 0, 0}}, workers: groups{"": {1, 0, 0}}},
		{name: "n2", node: notReady("a"), zones: groups{"a": {2, 1, 0}}, workers: groups{"": {2, 1, 0}}},
		{name: "n3", node: remediated(""), zones: groups{"a": {2, 1, 0}, "": {1, 1, 1}}, workers: groups{"": {3, 2, 1}}},
		{name: "n4", node: Node{Exists: true, Labels: map[string]string{"zone": "b"}, NotReady: true}, zones: groups{"a": {2, 1, 0}, "": {1, 1, 1}, "b": {1, 1, 0}}, workers: groups{"": {3, 2, 1}}},
		{name: "n4", node: Node{Exists: true, Labels: map[string]string{"role": "worker"}}, zones: groups{"a": {2, 1, 0}, "": {2, 1, 1}}, workers: groups{"": {4, 2, 1}}},
		{name: "n4", node: Node{}, zones: groups{"a": {2, 1, 0}, "": {1, 1, 1}}, workers: groups{"": {3, 2, 1}}},
		{name: "n2", node: remediated("a"), zones: groups{"a": {2, 1, 1}, "": {1, 1, 1}}, workers: groups{"": {3, 2, 2}}},
		{name: "n2", node: Node{Observation: Observation{Remediating: true}}, zones: groups{"a": {2, 1, 1}, "": {1, 1, 1}}, workers: groups{"": {3, 2, 2}}},
		{name: "n2", node: Node{Labels: zone("b"), Observation: Observation{Remediating: true}}, zones: groups{"a": {1, 0, 0}, "": {1, 1, 1}, "b": {1, 1, 1}}, workers: groups{"": {3, 2, 2}}},
		{name: "n2", node: Node{Observation: Observation{Unhealthy: true}}, zones: groups{"a": {1, 0, 0}, "": {1, 1, 1}}, workers: groups{"": {2, 1, 1}}},
		{name: "n5", node: Node{Observation: Observation{Remediating: true}}, zones: groups{"a": {1, 0, 0}, "": {2, 2, 2}}, workers: groups{"": {2, 1, 1}}},
		{name: "n5", node: Node{}, zones: groups{"a": {1, 0, 0}, "": {1, 1, 1}}, workers: groups{"": {2, 1, 1}}},
		{name: "n3", node: healthy("a"), zones: groups{"a": {2, 0, 0}}, workers: groups{"": {2, 0, 0}}},
		{name: "n6", node: Node{}, zones: groups{"a": {2, 0, 0}}, workers: groups{"": {2, 0, 0}}},
		{name: "n1", node: Node{}, zones: groups{"a": {1, 0, 0}}, workers: groups{"": {1, 0, 0}}},
		{name: "n3", node: Node{}, zones: groups{}, workers: groups{}},
	} {
		c.SetNode(step.name, step.node)
		require.Equal(t, map[string]groups{"zones": step.zones, "workers": step.workers}, c.snapshot(), "step %d", i)
		c.SetNode(step.name, step.node)
		require.Equal(t, map[string]groups{"zones": step.zones, "workers": step.workers}, c.snapshot(), "step %d, again", i)
	}
	require.Empty(t, c.Nodes())
}

// TestNothingIsKept: groups and beginnings of nodes that come and go are forgotten.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("a", byZone, minInterval(time.Hour)), budget("b", byZone, maxConcurrent("1"))))
	for i := range 1000 {
		name, now := fmt.Sprintf("n%d", i), after(time.Duration(i)*time.Minute)
		c.SetNode(name, notReady(name))
		require.Empty(t, begin(c, nhc("x"), now, due(name, 1)))
		c.SetNode(name, remediatedSince(name, now))
		c.Admit(nhc("x"), nil, now)
		c.SetNode(name, Node{})
		c.Expire(now)
	}
	for _, b := range c.budgets {
		require.Empty(t, b.groups)
	}
	require.Len(t, c.find("a").started, 60, "those of the last hour")
	require.Empty(t, c.find("b").started)
	require.Empty(t, c.nodes)
	require.Empty(t, c.reserved)
	require.Empty(t, c.WaitingAskers())
}

// TestBeginningsOutlive: what a group has begun is known however its budget changes (spec B3.4).
func TestBeginningsOutlive(t *testing.T) {
	t.Parallel()
	const refused = "b: next begin at 2026-01-07T12:05:00Z"
	zoned := func() *Counts {
		c := counts(budgets(budget("b", byZone, minInterval(5*time.Minute))), notReady("a"), notReady("a"), notReady("b"))
		begin(c, nhc("x"), noon, due("n1", 2))
		c.Admit(nhc("x"), nil, noon)
		return c
	}
	for name, tc := range map[string]struct {
		change func(*Counts)
		want   map[string]string
	}{
		"nothing": {change: func(*Counts) {}, want: map[string]string{"n2": "b a: next begin at 2026-01-07T12:05:00Z"}},
		"the spec is edited": {
			change: func(c *Counts) { c.SetBudget(Parse(budget("b", byZone, minInterval(10*time.Minute))), nil) },
			want:   map[string]string{"n2": "b a: next begin at 2026-01-07T12:10:00Z"},
		},
		"the status is older": {
			change: func(c *Counts) {
				c.SetBudget(Parse(budget("b", byZone, minInterval(5*time.Minute))), &Past{Started: map[string]time.Time{"a": after(-time.Minute)}})
			},
			want: map[string]string{"n2": "b a: next begin at 2026-01-07T12:05:00Z"},
		},
		"the status is newer": {
			change: func(c *Counts) {
				c.SetBudget(Parse(budget("b", byZone, minInterval(5*time.Minute))), &Past{Started: map[string]time.Time{"a": after(time.Minute)}})
			},
			want: map[string]string{"n2": "b a: next begin at 2026-01-07T12:06:00Z"},
		},
		"topologyKey is removed": {
			change: func(c *Counts) { c.SetBudget(Parse(budget("b", minInterval(5*time.Minute))), nil) },
			want:   map[string]string{"n2": refused, "n3": refused},
		},
		"topologyKey is another one: it may have been any group": {
			change: func(c *Counts) {
				other := budget("b", minInterval(5*time.Minute))
				other.Spec.TopologyKey = "role"
				c.SetBudget(Parse(other), &Past{Started: map[string]time.Time{"a": noon}})
			},
			want: map[string]string{"n2": "b worker: next begin at 2026-01-07T12:05:00Z", "n3": "b worker: next begin at 2026-01-07T12:05:00Z"},
		},
		"and back": {
			change: func(c *Counts) {
				c.SetBudget(Parse(budget("b", minInterval(5*time.Minute))), nil)
				c.SetBudget(Parse(budget("b", byZone, minInterval(5*time.Minute))), nil)
			},
			want: map[string]string{"n2": "b a: next begin at 2026-01-07T12:05:00Z", "n3": "b b: next begin at 2026-01-07T12:05:00Z"},
		},
		"another of that name takes its place": {
			change: func(c *Counts) {
				namesake := budget("b", byZone, minInterval(5*time.Minute))
				namesake.UID = "other"
				c.SetBudget(Parse(namesake), nil)
			},
			want: map[string]string{},
		},
		"it is deleted and created again: the CRs are there": {
			change: func(c *Counts) {
				c.SetNode("n1", remediatedSince("a", noon))
				c.RemoveBudget("b")
				c.SetBudget(Parse(budget("b", byZone, minInterval(5*time.Minute))), nil)
			},
			want: map[string]string{"n2": "b a: next begin at 2026-01-07T12:05:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := zoned()
			tc.change(c)
			refusals := c.Admit(nhc("y"), []Request{due("n2", 1)}, after(time.Minute))
			c.End(nhc("y"), "n2", NotBegun, noon)
			got := messages(refusals)
			refusals = c.Admit(nhc("y"), []Request{due("n3", 1)}, after(time.Minute))
			c.End(nhc("y"), "n3", NotBegun, noon)
			maps.Copy(got, messages(refusals))
			require.Equal(t, tc.want, got)
		})
	}
}

// TestAnotherTopologyKeyWakes: what began in the groups of before ends to count in time, too.
func TestAnotherTopologyKeyWakes(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", byZone, minInterval(5*time.Minute))), notReady("a"), notReady("b"))
	begin(c, nhc("x"), noon, due("n1", 2))
	c.Admit(nhc("x"), nil, noon)
	c.SetBudget(Parse(budget("b", minInterval(5*time.Minute))), nil)
	require.Equal(t, map[string]string{"n2": "b: next begin at 2026-01-07T12:05:00Z"}, begin(c, nhc("y"), after(time.Minute), due("n2", 1)))
	require.Equal(t, after(5*time.Minute), c.NextChange(after(time.Minute)))
	require.Empty(t, c.Woken(after(5*time.Minute-1)))
	require.Equal(t, []Asker{nhc("y")}, c.Woken(after(5*time.Minute)))
}
