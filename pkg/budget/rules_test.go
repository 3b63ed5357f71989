// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// many returns a number of equal nodes.
func many(n int, node Node) []Node { return slices.Repeat([]Node{node}, n) }

// TestRules: whether the last of the nodes may begin now, what is said if not, and what else
// might be said (spec B2 to B5.1).
func TestRules(t *testing.T) {
	t.Parallel()
	stop := []*nhcv1alpha1.RemediationBudget{budget("stop", maxConcurrent("0"))}
	zones := []*nhcv1alpha1.RemediationBudget{budget("zones", byZone, maxUnhealthy("30%"))}
	pace := []*nhcv1alpha1.RemediationBudget{budget("pace", minInterval(5*time.Minute))}
	freeze := []*nhcv1alpha1.RemediationBudget{budget("freeze", maxConcurrent("0"), schedule("0 8 * * MON-FRI", "Europe/Berlin", 10*time.Hour), because("Trading hours"))}
	for name, tc := range map[string]struct {
		budgets []*nhcv1alpha1.RemediationBudget
		nodes   []Node
		// without means that the request is a Machine without a Node.
		without bool
		now     time.Time
		want    string
		until   time.Time
	}{
		"B1.1 without a budget":                         {nodes: slices.Concat(many(9, remediated("a")), many(1, notReady("a"))), now: noon},
		"B1.1 a budget that selects other nodes":        {budgets: budgets(budget("b", selecting("zone", "b"), maxConcurrent("0"))), nodes: []Node{notReady("a")}, now: noon},
		"B2 {} selects all nodes, also without labels":  {budgets: stop, nodes: []Node{{Exists: true}}, now: noon, want: "stop: no remediation may begin"},
		"B2 {} selects Machines without a Node":         {budgets: stop, without: true, now: noon, want: "stop: no remediation may begin"},
		"B2 others do not select them":                  {budgets: budgets(budget("b", selecting("zone", "a"), maxConcurrent("0"))), nodes: []Node{healthy("a")}, without: true, now: noon},
		"B2 0% stops everything, too":                   {budgets: budgets(budget("b", maxConcurrent("0%"))), nodes: []Node{notReady("a")}, now: noon, want: "b: no remediation may begin"},
		"B2 0 stops a second health check":              {budgets: stop, nodes: []Node{remediated("a")}, now: noon, want: "stop: no remediation may begin"},
		"B2 100%":                                       {budgets: budgets(budget("b", maxConcurrent("100%"))), nodes: slices.Concat(many(9, remediated("a")), many(1, notReady("a"))), now: noon},
		"B2 a limit that no cluster reaches":            {budgets: budgets(budget("b", maxConcurrent("99999999999999999999%"), maxUnhealthy("99999999999999999999"))), nodes: []Node{notReady("a")}, now: noon},
		"B2 maxUnhealthy: as many as that":              {budgets: budgets(budget("b", maxUnhealthy("3"))), nodes: slices.Concat(many(5, healthy("a")), many(3, notReady("a"))), now: noon},
		"B2 maxUnhealthy: one more":                     {budgets: budgets(budget("b", maxUnhealthy("3"))), nodes: slices.Concat(many(5, healthy("a")), many(4, notReady("a"))), now: noon, want: "b: 4 of at most 3 nodes are not healthy"},
		"B2 maxUnhealthy: 30% of 10":                    {budgets: budgets(budget("b", maxUnhealthy("30%"))), nodes: slices.Concat(many(7, healthy("a")), many(3, notReady("a"))), now: noon},
		"B2 maxUnhealthy: 30% of 10, one more":          {budgets: budgets(budget("b", maxUnhealthy("30%"))), nodes: slices.Concat(many(6, healthy("a")), many(4, notReady("a"))), now: noon, want: "b: 4 of at most 3 nodes are not healthy"},
		"B2 maxUnhealthy: 30% of 11 is 4":               {budgets: budgets(budget("b", maxUnhealthy("30%"))), nodes: slices.Concat(many(7, healthy("a")), many(4, notReady("a"))), now: noon},
		"B2 maxUnhealthy: 1% of one is one":             {budgets: budgets(budget("b", maxUnhealthy("1%"))), nodes: []Node{notReady("a")}, now: noon},
		"B2 maxUnhealthy: 0% of one is none":            {budgets: budgets(budget("b", maxUnhealthy("0%"))), nodes: []Node{notReady("a")}, now: noon, want: "b: 1 of at most 0 nodes are not healthy"},
		"B2 maxConcurrent: 30% of 10":                   {budgets: budgets(budget("b", maxConcurrent("30%"))), nodes: slices.Concat(many(7, healthy("a")), many(2, remediated("a")), many(1, notReady("a"))), now: noon},
		"B2 maxConcurrent: 30% of 10 are":               {budgets: budgets(budget("b", maxConcurrent("30%"))), nodes: slices.Concat(many(6, healthy("a")), many(3, remediated("a")), many(1, notReady("a"))), now: noon, want: "b: 3 of at most 3 nodes are under remediation"},
		"B2 maxConcurrent: 30% of 11 is 4":              {budgets: budgets(budget("b", maxConcurrent("30%"))), nodes: slices.Concat(many(7, healthy("a")), many(3, remediated("a")), many(1, notReady("a"))), now: noon},
		"B2 maxConcurrent: the last place":              {budgets: budgets(budget("b", maxConcurrent("2"))), nodes: []Node{remediated("a"), notReady("a")}, now: noon},
		"B2 maxConcurrent: nodes that fail take none":   {budgets: budgets(budget("b", maxConcurrent("1"))), nodes: many(50, notReady("a")), now: noon},
		"B2 maxConcurrent: more than it, made stricter": {budgets: budgets(budget("b", maxConcurrent("1"))), nodes: slices.Concat(many(5, remediated("a")), many(1, notReady("a"))), now: noon, want: "b: 5 of at most 1 nodes are under remediation"},
		"B2 a node has its place already":               {budgets: budgets(budget("b", maxConcurrent("2"))), nodes: many(2, remediated("a")), now: noon},
		"B2 but not if there are too many besides":      {budgets: budgets(budget("b", maxConcurrent("2"))), nodes: many(3, remediated("a")), now: noon, want: "b: 3 of at most 2 nodes are under remediation"},

		"B2 topologyKey: the limit is that of the group": {budgets: zones, nodes: slices.Concat(many(7, notReady("b")), many(3, healthy("b")), many(2, healthy("a")), many(1, notReady("a"))), now: noon},
		"B2 topologyKey: the group has failed":           {budgets: zones, nodes: slices.Concat(many(90, healthy("b")), many(1, healthy("a")), many(2, notReady("a"))), now: noon, want: "zones a: 2 of at most 1 nodes are not healthy"},
		"B2 topologyKey: nodes without the label":        {budgets: zones, nodes: slices.Concat(many(90, healthy("b")), many(1, healthy("")), many(2, notReady(""))), now: noon, want: `zones "": 2 of at most 1 nodes are not healthy`},
		"B2 topologyKey: a label with an empty value":    {budgets: zones, nodes: []Node{notReady(""), {Exists: true, NotReady: true, Labels: map[string]string{"zone": ""}}}, now: noon, want: `zones "": 2 of at most 1 nodes are not healthy`},
		"B2 topologyKey: a Machine without a Node":       {budgets: budgets(budget("zones", byZone, maxConcurrent("1"))), nodes: []Node{remediated("")}, without: true, now: noon, want: `zones "": 1 of at most 1 nodes are under remediation`},
		"B2 percentages count a Machine without a Node":  {budgets: budgets(budget("zones", byZone, maxConcurrent("30%"), maxUnhealthy("30%"))), nodes: many(3, healthy("a")), without: true, now: noon},
		"B3.3 and it is one that is not healthy":         {budgets: zones, nodes: []Node{notReady("")}, without: true, now: noon, want: `zones "": 2 of at most 1 nodes are not healthy`},

		"B3.1 not Ready, and nothing selects it":        {budgets: budgets(budget("b", maxUnhealthy("1"))), nodes: []Node{notReady("a"), judged("a")}, now: noon, want: "b: 2 of at most 1 nodes are not healthy"},
		"B3.1 Ready, and judged otherwise":              {budgets: budgets(budget("b", maxUnhealthy("1"))), nodes: []Node{judged("a"), notReady("a")}, now: noon, want: "b: 2 of at most 1 nodes are not healthy"},
		"B3.1 Ready again, and under remediation":       {budgets: budgets(budget("b", maxUnhealthy("1"))), nodes: []Node{remediated("a"), notReady("a")}, now: noon, want: "b: 2 of at most 1 nodes are not healthy"},
		"B3.1 all of that is one node":                  {budgets: budgets(budget("b", maxUnhealthy("1"))), nodes: []Node{{Exists: true, NotReady: true, Observation: Observation{Unhealthy: true, Remediating: true}}}, now: noon},
		"B3.2 a node that is gone keeps its place":      {budgets: budgets(budget("b", maxConcurrent("1"))), nodes: []Node{{Observation: Observation{Remediating: true}}, notReady("a")}, now: noon, want: "b: 1 of at most 1 nodes are under remediation"},
		"B3.2 and is one that is not healthy":           {budgets: budgets(budget("b", maxUnhealthy("1"))), nodes: []Node{{Observation: Observation{Remediating: true}}, notReady("a")}, now: noon, want: "b: 2 of at most 1 nodes are not healthy"},
		"B3.2 only if it is under remediation":          {budgets: budgets(budget("b", maxUnhealthy("1"))), nodes: []Node{{NotReady: true, Observation: Observation{Unhealthy: true}}, notReady("a")}, now: noon},
		"B3.3 one failed node":                          {budgets: budgets(budget("b", byZone, maxUnhealthy("1"))), nodes: []Node{healthy("a"), notReady("a")}, now: noon},
		"B3.3 two failed nodes":                         {budgets: budgets(budget("b", byZone, maxUnhealthy("1"))), nodes: []Node{notReady("a"), notReady("a")}, now: noon, want: "b a: 2 of at most 1 nodes are not healthy"},
		"B3.3 the one that asks counts, whatever it is": {budgets: budgets(budget("b", maxUnhealthy("1"))), nodes: []Node{notReady("a"), healthy("a")}, now: noon, want: "b: 2 of at most 1 nodes are not healthy"},
		"B3.3 none": {budgets: budgets(budget("b", maxUnhealthy("0"))), nodes: []Node{notReady("a")}, now: noon, want: "b: 1 of at most 0 nodes are not healthy"},

		"B2 minInterval: nothing has begun":             {budgets: pace, nodes: []Node{notReady("a"), notReady("a")}, now: noon},
		"B2 minInterval: too soon":                      {budgets: pace, nodes: []Node{remediatedSince("a", noon), notReady("a")}, now: after(5*time.Minute - 1), want: "pace: next begin at 2026-01-07T12:05:00Z", until: after(5 * time.Minute)},
		"B2 minInterval: it has passed":                 {budgets: pace, nodes: []Node{remediatedSince("a", noon), notReady("a")}, now: after(5 * time.Minute)},
		"B2 minInterval: the last one counts":           {budgets: pace, nodes: []Node{remediatedSince("a", after(time.Minute)), remediatedSince("a", noon), notReady("a")}, now: after(5 * time.Minute), want: "pace: next begin at 2026-01-07T12:06:00Z", until: after(6 * time.Minute)},
		"B2 minInterval: in another group":              {budgets: budgets(budget("pace", byZone, minInterval(5*time.Minute))), nodes: []Node{remediatedSince("b", noon), notReady("a")}, now: noon},
		"B2 minInterval: in the group":                  {budgets: budgets(budget("pace", byZone, minInterval(5*time.Minute))), nodes: []Node{remediatedSince("a", noon), notReady("a")}, now: noon, want: "pace a: next begin at 2026-01-07T12:05:00Z", until: after(5 * time.Minute)},
		"B2 minInterval: when it began is not known":    {budgets: pace, nodes: []Node{remediatedSince("a", time.Time{}), notReady("a")}, now: noon},
		"B2 minInterval: the clock of others is ahead":  {budgets: pace, nodes: []Node{remediatedSince("a", after(time.Minute)), notReady("a")}, now: noon, want: "pace: next begin at 2026-01-07T12:06:00Z", until: after(6 * time.Minute)},
		"B2 minInterval: a second health check":         {budgets: pace, nodes: []Node{remediatedSince("a", noon)}, now: after(time.Minute), want: "pace: next begin at 2026-01-07T12:05:00Z", until: after(5 * time.Minute)},
		"B5.1 maxUnhealthy is said first":               {budgets: budgets(budget("b", maxUnhealthy("1"), maxConcurrent("1"), minInterval(time.Hour))), nodes: []Node{remediatedSince("a", noon), notReady("a")}, now: noon, want: "b: 2 of at most 1 nodes are not healthy"},
		"B5.1 then maxConcurrent: time is not all":      {budgets: budgets(budget("b", maxUnhealthy("2"), maxConcurrent("1"), minInterval(time.Hour))), nodes: []Node{remediatedSince("a", noon), notReady("a")}, now: noon, want: "b: 1 of at most 1 nodes are under remediation"},
		"B5.1 then minInterval":                         {budgets: budgets(budget("b", maxUnhealthy("2"), maxConcurrent("2"), minInterval(time.Hour))), nodes: []Node{remediatedSince("a", noon), notReady("a")}, now: noon, want: "b: next begin at 2026-01-07T13:00:00Z", until: after(time.Hour)},
		"B1.3 all have to admit: the one that does not": {budgets: budgets(budget("b", maxConcurrent("1")), budget("a", maxConcurrent("3"))), nodes: []Node{remediated("a"), notReady("a")}, now: noon, want: "b: 1 of at most 1 nodes are under remediation"},
		"B1.3 all have to admit: the first by name":     {budgets: budgets(budget("b", maxConcurrent("1")), budget("a", maxConcurrent("1"))), nodes: []Node{remediated("a"), notReady("a")}, now: noon, want: "a: 1 of at most 1 nodes are under remediation"},
		"B1.3 all do": {budgets: budgets(budget("b", maxConcurrent("2")), budget("a", maxUnhealthy("2")), budget("c", minInterval(time.Minute))), nodes: []Node{remediated("a"), notReady("a")}, now: noon},

		"B2 schedules: while it is open":       {budgets: freeze, nodes: []Node{notReady("a")}, now: noon, want: "freeze: no remediation may begin, until 2026-01-07T17:00:00Z. Trading hours", until: after(5 * time.Hour)},
		"B2 schedules: as it closes":           {budgets: freeze, nodes: []Node{notReady("a")}, now: after(5 * time.Hour)},
		"B2 schedules: just before it opens":   {budgets: freeze, nodes: []Node{notReady("a")}, now: after(-5*time.Hour - 1)},
		"B2 schedules: as it opens, in summer": {budgets: freeze, nodes: []Node{notReady("a")}, now: time.Date(2026, time.July, 6, 6, 0, 0, 0, time.UTC), want: "freeze: no remediation may begin, until 2026-07-06T16:00:00Z. Trading hours", until: time.Date(2026, time.July, 6, 16, 0, 0, 0, time.UTC)},
		"B5.1 the interval ends first": {
			budgets: budgets(budget("b", byZone, minInterval(time.Hour), schedule("0 12 * * *", "", 2*time.Hour), because("Slowly."))), nodes: []Node{remediatedSince("a", noon), notReady("a")}, now: noon,
			want: "b a: next begin at 2026-01-07T13:00:00Z, until 2026-01-07T14:00:00Z. Slowly.", until: after(time.Hour),
		},
		"B5.1 the window ends first": {
			budgets: budgets(budget("b", minInterval(3*time.Hour), schedule("0 12 * * *", "", 2*time.Hour))), nodes: []Node{remediatedSince("a", noon), notReady("a")}, now: noon,
			want: "b: next begin at 2026-01-07T15:00:00Z, until 2026-01-07T14:00:00Z", until: after(2 * time.Hour),
		},
		"B5.1 the window has no end": {
			budgets: budgets(budget("b", maxConcurrent("0"), schedule("0 0 * * *", "", 24*time.Hour))), nodes: []Node{notReady("a")}, now: noon,
			want: "b: no remediation may begin",
		},
		"B5.1 the reason": {budgets: budgets(budget("b", maxUnhealthy("0"), because("Ask Ada"))), nodes: []Node{notReady("a")}, now: noon, want: "b: 1 of at most 0 nodes are not healthy. Ask Ada"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := counts(tc.budgets, tc.nodes...)
			node := "machine"
			if !tc.without {
				node = fmt.Sprintf("n%d", len(tc.nodes))
			}
			before := c.snapshot()
			refusal := c.Admit(nhc("x"), []Request{due(node, 10)}, tc.now)[node]
			if tc.want == "" {
				require.Nil(t, refusal)
				c.End(nhc("x"), node, NotBegun, tc.now)
			} else {
				require.NotNil(t, refusal)
				require.Equal(t, tc.want, refusal.Message)
				require.Equal(t, tc.until, refusal.Until.In(tc.until.Location()))
			}
			require.Equal(t, before, c.snapshot(), "whether refused or given back, nothing is taken")
		})
	}
}
