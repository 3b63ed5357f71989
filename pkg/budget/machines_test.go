// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// machineIn returns a node that is a Machine with the labels of a zone.
func machineIn(name string, node Node) Node {
	node.Machine = Machine{Exists: true, Namespace: "machines", Labels: zone(name)}
	return node
}

// TestMachineRules: whether the last of the nodes may begin by a budget about Machines (spec B2).
func TestMachineRules(t *testing.T) {
	t.Parallel()
	zones := budgets(budget("zones", byZone, maxUnhealthy("1"), ofMachines))
	pool := budgets(budget("pool", maxConcurrent("50%"), ofMachines))
	for name, tc := range map[string]struct {
		budgets []*nhcv1alpha1.RemediationBudget
		nodes   []Node
		want    string
	}{
		"Machines count whether they have a Node or not":    {budgets: pool, nodes: []Node{machineIn("", healthy("")), machineIn("", Node{}), machineIn("", remediated("")), machineIn("", notReady(""))}},
		"Nodes without a Machine do not":                    {budgets: pool, nodes: []Node{healthy(""), healthy(""), machineIn("", remediated("")), machineIn("", notReady(""))}, want: "pool: 1 of at most 1 Machines are under remediation"},
		"nor does a Machine of another namespace":           {budgets: pool, nodes: []Node{{Machine: Machine{Exists: true, Namespace: "others"}}, {Machine: Machine{Exists: true, Namespace: "others"}}, machineIn("", remediated("")), machineIn("", notReady(""))}, want: "pool: 1 of at most 1 Machines are under remediation"},
		"Nodes without a Machine are not bounded":           {budgets: pool, nodes: []Node{machineIn("", remediated("")), notReady("")}},
		"nor are Machines of another namespace":             {budgets: pool, nodes: []Node{machineIn("", remediated("")), {Machine: Machine{Exists: true, Namespace: "others"}}}},
		"the groups are by the labels of Machines":          {budgets: zones, nodes: []Node{machineIn("a", notReady("b")), machineIn("b", notReady("b"))}},
		"two of one group":                                  {budgets: zones, nodes: []Node{machineIn("a", notReady("b")), machineIn("a", notReady("c"))}, want: "zones a: 2 of at most 1 Machines are not healthy"},
		"one without a Node that never joined":              {budgets: zones, nodes: []Node{machineIn("a", Node{Observation: Observation{Unhealthy: true}}), machineIn("a", notReady("c"))}, want: "zones a: 2 of at most 1 Machines are not healthy"},
		"it asks itself":                                    {budgets: zones, nodes: []Node{machineIn("a", healthy("a")), machineIn("a", Node{Observation: Observation{Unhealthy: true}})}},
		"budgets about nodes count no Machine without Node": {budgets: budgets(budget("b", maxConcurrent("50%"))), nodes: []Node{machineIn("", Node{}), machineIn("", remediated("")), machineIn("", notReady(""))}, want: "b: 1 of at most 1 nodes are under remediation"},
		"but bound it":                                      {budgets: budgets(budget("b", maxConcurrent("0"))), nodes: []Node{machineIn("", Node{})}, want: "b: no remediation may begin"},
		"both kinds have to admit":                          {budgets: budgets(budget("b", maxConcurrent("2")), budget("pool", maxConcurrent("0"), ofMachines)), nodes: []Node{machineIn("", notReady(""))}, want: "pool: no remediation may begin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := counts(tc.budgets, tc.nodes...)
			node := []string{"n1", "n2", "n3", "n4"}[len(tc.nodes)-1]
			before := c.snapshot()
			refusal := c.Admit(nhc("x"), []Request{due(node, 10)}, noon)[node]
			if tc.want == "" {
				require.Nil(t, refusal)
				c.End(nhc("x"), node, NotBegun, noon)
			} else {
				require.NotNil(t, refusal)
				require.Equal(t, tc.want, refusal.Message)
			}
			require.Equal(t, before, c.snapshot(), "whether refused or given back, nothing is taken")
		})
	}
}

// TestMachineIsReplaced: a Machine that is deleted keeps its place, and its group, until its
// replacement is healthy (spec B3.2).
func TestMachineIsReplaced(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("pool", byZone, maxConcurrent("1"), minInterval(time.Minute), ofMachines)), machineIn("a", notReady("")), machineIn("a", notReady("")))
	require.Empty(t, begin(c, nhc("x"), noon, due("n1", 2)))
	gone := Node{Observation: Observation{Remediating: true, Started: noon}}
	c.SetNode("n1", gone)
	c.SetNode("replacement", machineIn("a", Node{}))
	require.Equal(t, map[string]map[string]tally{"pool": {"a": {observed: 3, unhealthy: 2, remediating: 1}}}, c.snapshot())
	require.Equal(t, map[string]string{"n2": "pool a: 1 of at most 1 Machines are under remediation"}, begin(c, nhc("y"), after(time.Second), due("n2", 1)))
	c.SetNode("n1", Node{})
	require.Equal(t, map[string]map[string]tally{"pool": {"a": {observed: 2, unhealthy: 1}}}, c.snapshot())
	require.Equal(t, map[string]string{"n2": "pool a: next begin at 2026-01-07T12:01:00Z"}, begin(c, nhc("y"), after(time.Second), due("n2", 1)))
	require.Equal(t, []Asker{nhc("y")}, c.Woken(after(time.Minute)))
}

// TestMachineOfNodeIsGone: a Node whose Machine is gone counts, and is bound, as its Machine only while it is under
// remediation (spec B3.2).
func TestMachineOfNodeIsGone(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("pool", maxConcurrent("0"), ofMachines)), machineIn("a", notReady("")), machineIn("a", remediated("")))
	c.SetNode("n1", notReady(""))
	c.SetNode("n2", remediated(""))
	require.Equal(t, map[string]map[string]tally{"pool": {"": {observed: 1, unhealthy: 1, remediating: 1}}}, c.snapshot())
	require.Empty(t, begin(c, nhc("x"), noon, due("n1", 1)))
	c.SetNode("n2", notReady(""))
	require.Empty(t, begin(c, nhc("x"), noon, due("n2", 1)))
}

// TestMachineIsLabelledAnew: it counts in its new group from then on (spec B3.5).
func TestMachineIsLabelledAnew(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("pool", byZone, maxConcurrent("1"), ofMachines)), machineIn("a", notReady("")))
	c.SetNode("n1", machineIn("b", notReady("")))
	require.Equal(t, map[string]map[string]tally{"pool": {"b": {observed: 1, unhealthy: 1}}}, c.snapshot())
}

// TestFromNodesToMachines: what a budget has counted before it was changed still bounds it.
func TestFromNodesToMachines(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", minInterval(time.Minute))), machineIn("a", notReady("")), machineIn("a", notReady("")))
	require.Empty(t, begin(c, nhc("x"), noon, due("n1", 2)))
	c.SetNode("n1", machineIn("a", remediatedSince("", noon)))
	c.SetBudget(Parse(budget("b", byZone, minInterval(time.Minute), ofMachines)), nil)
	require.Equal(t, map[string]string{"n2": "b a: next begin at 2026-01-07T12:01:00Z"}, begin(c, nhc("x"), after(time.Second), due("n2", 1)))
}
