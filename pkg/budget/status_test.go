// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

type status = nhcv1alpha1.RemediationBudgetStatus

// ofGroup is what status says of a group. A negative allowed means that it is not limited.
func ofGroup(name string, observed, unhealthy, remediating, allowed int32, lastStarted ...time.Time) nhcv1alpha1.BudgetGroup {
	g := nhcv1alpha1.BudgetGroup{Name: name, ObservedNodes: observed, NotHealthyNodes: unhealthy, RemediatingNodes: remediating}
	if allowed >= 0 {
		g.RemediationsAllowed = &allowed
	}
	for _, at := range lastStarted {
		g.LastStarted = new(metav1.NewTime(at))
	}
	return g
}

// TestNumbers: what status says of groups, and of all of them (spec B5.2).
func TestNumbers(t *testing.T) {
	t.Parallel()
	dayBefore := after(-24 * time.Hour)
	for name, tc := range map[string]struct {
		budget *nhcv1alpha1.RemediationBudget
		nodes  []Node
		now    time.Time
		// allowed is that of the whole budget, negative if it is not limited.
		allowed int32
		groups  []nhcv1alpha1.BudgetGroup
	}{
		"no nodes, a number":            {budget: budget("b", maxConcurrent("2")), now: noon, allowed: 2},
		"no nodes, a percentage":        {budget: budget("b", maxUnhealthy("50%")), now: noon, allowed: 0},
		"no nodes, no limit now":        {budget: budget("b", maxConcurrent("0"), schedule("0 13 * * *", "", time.Hour)), now: noon, allowed: -1},
		"maxUnhealthy":                  {budget: budget("b", maxUnhealthy("3")), nodes: many(5, healthy("a")), now: noon, allowed: 3, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 5, 0, 0, 3)}},
		"maxUnhealthy: some are failed": {budget: budget("b", maxUnhealthy("3")), nodes: many(3, notReady("a")), now: noon, allowed: 3, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 3, 3, 0, 3)}},
		"maxUnhealthy: less those under remediation": {
			budget: budget("b", maxUnhealthy("3")), nodes: slices.Concat(many(2, remediated("a")), many(1, notReady("a"))), now: noon,
			allowed: 1, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 3, 3, 2, 1, dayBefore)},
		},
		"maxUnhealthy: too many": {
			budget: budget("b", maxUnhealthy("3")), nodes: slices.Concat(many(2, remediated("a")), many(2, notReady("a"))), now: noon,
			allowed: 0, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 4, 4, 2, 0, dayBefore)},
		},
		"maxConcurrent": {
			budget: budget("b", maxConcurrent("3")), nodes: slices.Concat(many(2, remediated("a")), many(9, notReady("a"))), now: noon,
			allowed: 1, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 11, 11, 2, 1, dayBefore)},
		},
		"maxConcurrent: more than that": {
			budget: budget("b", maxConcurrent("3")), nodes: many(5, remediated("a")), now: noon,
			allowed: 0, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 5, 5, 5, 0, dayBefore)},
		},
		"maxConcurrent: percentage rounded up": {
			budget: budget("b", maxConcurrent("25%")), nodes: many(5, healthy("a")), now: noon, allowed: 2, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 5, 0, 0, 2)},
		},
		"minInterval: one": {
			budget: budget("b", minInterval(time.Hour)), nodes: many(5, healthy("a")), now: noon, allowed: 1, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 5, 0, 0, 1)},
		},
		"minInterval: not yet": {
			budget: budget("b", minInterval(time.Hour)), nodes: many(1, remediatedSince("a", noon)), now: after(time.Hour - 1),
			allowed: 0, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 1, 1, 1, 0, noon)},
		},
		"minInterval: one again": {
			budget: budget("b", minInterval(time.Hour)), nodes: many(1, remediatedSince("a", noon)), now: after(time.Hour),
			allowed: 1, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 1, 1, 1, 1, noon)},
		},
		"all three: the least": {
			budget: budget("b", maxUnhealthy("9"), maxConcurrent("5"), minInterval(time.Hour)), nodes: many(5, healthy("a")), now: noon,
			allowed: 1, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 5, 0, 0, 1)},
		},
		"outside of its schedule": {
			budget: budget("b", maxConcurrent("0"), schedule("0 13 * * *", "", time.Hour)), nodes: many(5, healthy("a")), now: noon,
			allowed: -1, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 5, 0, 0, -1)},
		},
		"it cannot be evaluated": {
			budget: budget("b", maxConcurrent("x")), nodes: many(5, healthy("a")), now: noon, allowed: 0, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 5, 0, 0, 0)},
		},
		"only what is selected": {
			budget: budget("b", selecting("zone", "a"), maxConcurrent("1")), nodes: []Node{healthy("a"), healthy("b"), healthy("")}, now: noon,
			allowed: 1, groups: []nhcv1alpha1.BudgetGroup{ofGroup("", 1, 0, 0, 1)},
		},
		"groups: the tightest first, then by unhealthy nodes, then by name": {
			budget: budget("b", byZone, maxConcurrent("2")), now: noon, allowed: 0,
			nodes: slices.Concat(many(3, healthy("a")), many(1, remediated("b")), many(1, notReady("")), many(2, remediated("c")), many(1, healthy("d"))),
			groups: []nhcv1alpha1.BudgetGroup{
				ofGroup("c", 2, 2, 2, 0, dayBefore), ofGroup("b", 1, 1, 1, 1, dayBefore), ofGroup("", 1, 1, 0, 2), ofGroup("a", 3, 0, 0, 2), ofGroup("d", 1, 0, 0, 2),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := counts(budgets(tc.budget), tc.nodes...)
			got := c.Status("b", &status{}, tc.now)
			require.Equal(t, int64(1), got.ObservedGeneration)
			require.Equal(t, tc.groups, got.Groups)
			var sum tally
			for i := range tc.groups {
				sum.observed += int(tc.groups[i].ObservedNodes)
				sum.unhealthy += int(tc.groups[i].NotHealthyNodes)
				sum.remediating += int(tc.groups[i].RemediatingNodes)
			}
			require.Equal(t, tally{int(*got.ObservedNodes), int(*got.NotHealthyNodes), int(*got.RemediatingNodes)}, sum, "the numbers of all groups")
			if tc.allowed < 0 {
				require.Nil(t, got.RemediationsAllowed)
			} else {
				require.Equal(t, &tc.allowed, got.RemediationsAllowed)
			}
			require.Same(t, got, c.Status("b", got, tc.now), "nothing has changed")
		})
	}
}

// TestManyGroups: status lists 100 of them, and counts all (spec B5.2).
func TestManyGroups(t *testing.T) {
	t.Parallel()
	var nodes []Node
	for i := range 300 {
		zone := fmt.Sprintf("z%03d", i)
		nodes = append(nodes, healthy(zone))
		if i >= 250 {
			nodes = append(nodes, remediatedSince(zone, noon))
		}
	}
	c := counts(budgets(budget("b", byZone, maxConcurrent("1"))), nodes...)
	got := c.Status("b", &status{}, noon)
	require.Len(t, got.Groups, nhcv1alpha1.MaxBudgetGroups)
	require.Equal(t, ofGroup("z250", 2, 1, 1, 0, noon), got.Groups[0])
	require.Equal(t, ofGroup("z299", 2, 1, 1, 0, noon), got.Groups[49])
	require.Equal(t, ofGroup("z000", 1, 0, 0, 1), got.Groups[50])
	require.Equal(t, ofGroup("z049", 1, 0, 0, 1), got.Groups[99])
	require.Equal(t, []int32{350, 50, 50, 0}, []int32{*got.ObservedNodes, *got.NotHealthyNodes, *got.RemediatingNodes, *got.RemediationsAllowed})

	for i := range 50 {
		c.SetNode(fmt.Sprintf("n%d", 252+2*i), healthy(fmt.Sprintf("z%03d", 250+i)))
	}
	got = c.Status("b", got, noon)
	require.Equal(t, []int32{350, 0, 0, 1}, []int32{*got.ObservedNodes, *got.NotHealthyNodes, *got.RemediatingNodes, *got.RemediationsAllowed})
	require.Equal(t, "z000", got.Groups[0].Name)
}

// TestConditions: Valid and Exhausted, and the events of their transitions (spec B2.2, B5.2, B5.3).
func TestConditions(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", maxConcurrent("1"))), remediated("a"), notReady("a"), notReady("a"))
	now, got := noon, &status{}
	step := func(what string, valid, exhausted metav1.ConditionStatus, message string, events ...Event) {
		t.Helper()
		old := got.DeepCopy()
		now = now.Add(time.Minute + time.Millisecond)
		before := got
		got = c.Status("b", got, now)
		require.Equal(t, old, before, "%s: the old one is not changed", what)
		stalled := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionStalled)
		require.Equal(t, valid == metav1.ConditionFalse, stalled != nil && stalled.Status == metav1.ConditionTrue, "B5.2 %s", what)
		for kind, want := range map[string]metav1.ConditionStatus{nhcv1alpha1.ConditionBudgetValid: valid, nhcv1alpha1.ConditionBudgetExhausted: exhausted} {
			condition, was := meta.FindStatusCondition(got.Conditions, kind), meta.FindStatusCondition(old.Conditions, kind)
			require.Equal(t, want, condition.Status, what)
			require.Equal(t, got.ObservedGeneration, condition.ObservedGeneration, what)
			if was != nil && was.Status == want {
				require.Equal(t, was.LastTransitionTime, condition.LastTransitionTime, what)
			} else {
				require.Equal(t, now.Truncate(time.Second), condition.LastTransitionTime.Time, what)
			}
		}
		require.Equal(t, message, meta.FindStatusCondition(got.Conditions, nhcv1alpha1.ConditionBudgetExhausted).Message, what)
		require.Equal(t, events, Events(before, got), what)
		require.Empty(t, Events(got, got), "%s: each once", what)
		require.Same(t, got, c.Status("b", got, now.Add(time.Hour)), "%s: later", what)
	}
	exhausted := func(note string) Event {
		return Event{Type: corev1.EventTypeWarning, Reason: "BudgetExhausted", Note: note}
	}
	available := Event{Type: corev1.EventTypeNormal, Reason: "BudgetAvailable", Note: "No node waits for the budget"}
	const none, invalid = "No node waits for the budget", "maxConcurrent must be a number or a percentage, and not negative: x. Until it is corrected, the budget refuses all Nodes that it selects"

	require.Equal(t, &status{}, c.Status("other", &status{}, noon))
	step("no node waits", "True", "False", none)
	begin(c, nhc("x"), noon, due("n2", 1))
	step("one does", "True", "True", "1 node waits: n2", exhausted("1 node waits: n2"))
	begin(c, nhc("y"), noon, due("n3", 1), due("n2", 1))
	step("two do, one of them twice", "True", "True", "2 nodes wait: n2, n3")
	c.SetNode("n1", healthy("a"))
	c.Woken(now)
	step("one of them need not", "True", "True", "2 nodes wait: n2, n3")
	begin(c, nhc("y"), noon)
	c.Woken(now)
	step("it does not want to any more", "True", "False", none, available)

	edited := budget("b", maxConcurrent("x"))
	edited.Generation = 2
	c.SetBudget(Parse(edited), nil)
	c.Woken(now)
	step("it cannot be evaluated", "False", "True", "1 node waits: n2", Event{Type: corev1.EventTypeWarning, Reason: "InvalidBudget", Note: invalid}, exhausted("1 node waits: n2"))
	require.Equal(t, "InvalidBudget", meta.FindStatusCondition(got.Conditions, "Valid").Reason)
	require.Equal(t, int64(2), got.ObservedGeneration)

	edited = budget("b", maxConcurrent("y"))
	c.SetBudget(Parse(edited), nil)
	step("nor now", "False", "True", "1 node waits: n2", Event{Type: corev1.EventTypeWarning, Reason: "InvalidBudget", Note: strings.Replace(invalid, ": x", ": y", 1)})
	c.SetBudget(Parse(budget("b", maxConcurrent("1"))), nil)
	c.Woken(now)
	step("it can", "True", "False", none, available)
	require.Equal(t, "Valid", meta.FindStatusCondition(got.Conditions, "Valid").Reason)
	require.Equal(t, "BudgetAvailable", meta.FindStatusCondition(got.Conditions, "Exhausted").Reason)
}

// TestExhaustedStays: a budget that is exhausted by its status stays so until all health checks have asked the next
// leader (spec B5.2).
func TestExhaustedStays(t *testing.T) {
	t.Parallel()
	c := one()
	c.UnaskedUntil = after(time.Minute)
	require.Equal(t, after(time.Minute), c.NextChange(noon))
	for _, before := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		old := &status{Conditions: []metav1.Condition{{Type: nhcv1alpha1.ConditionBudgetExhausted, Status: before}}}
		require.Equal(t, before, meta.FindStatusCondition(c.Status("b", old, noon).Conditions, "Exhausted").Status)
		require.Equal(t, metav1.ConditionFalse, meta.FindStatusCondition(c.Status("b", old, after(time.Minute)).Conditions, "Exhausted").Status)
	}
}

// TestMessagesAreBounded: names of nodes, and what a spec says, may be long (spec B5.2).
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", maxConcurrent("0")), budget("c", maxConcurrent(strings.Repeat("ä", 5000)))))
	var requests []Request
	for i := range 12 {
		requests = append(requests, due(fmt.Sprintf("n%02d", i), 1))
	}
	require.Len(t, begin(c, nhc("x"), noon, requests...), 12)
	exhausted := func(budget string) string {
		return meta.FindStatusCondition(c.Status(budget, &status{}, noon).Conditions, nhcv1alpha1.ConditionBudgetExhausted).Message
	}
	require.Equal(t, "12 nodes wait: n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 2 more", exhausted("b"))
	begin(c, nhc("x"), noon, requests[:10]...)
	require.Equal(t, "10 nodes wait: n00, n01, n02, n03, n04, n05, n06, n07, n08, n09", exhausted("b"))
	for i := range requests {
		requests[i].Node = strings.Repeat(fmt.Sprintf("%02d", i), 126)
	}
	begin(c, nhc("x"), noon, requests...)
	require.LessOrEqual(t, len(exhausted("b")), 1024)
	require.Contains(t, exhausted("b"), "12 nodes wait: 0000")
	for _, event := range Events(&status{}, c.Status("c", &status{}, noon)) {
		require.LessOrEqual(t, len(event.Note), 1024)
	}
	require.Equal(t, 12, c.WaitingNodes("b"))
}

// TestRestart: lastStarted is all that a new process needs (spec B3.4).
func TestRestart(t *testing.T) {
	t.Parallel()
	zones := budget("b", byZone, minInterval(time.Hour))
	c := counts(budgets(zones), notReady("a"), notReady("b"), notReady(""))
	for i, node := range []string{"n1", "n2", "n3"} {
		begin(c, nhc("x"), after(time.Duration(i)*time.Minute+time.Millisecond), due(node, 1))
	}
	c.Admit(nhc("x"), nil, after(3*time.Minute))
	c.SetNode("n2", Node{}) // The last one of its group.
	old := c.Status("b", &status{}, after(3*time.Minute))
	require.Equal(t, []nhcv1alpha1.BudgetGroup{ofGroup("", 1, 1, 0, 0, after(2*time.Minute)), ofGroup("a", 1, 1, 0, 0, noon), ofGroup("b", 0, 0, 0, 0, after(time.Minute))}, old.Groups)

	restarted := NewCounts()
	restarted.SetBudget(Parse(zones), pastOf(old, after(3*time.Minute)))
	restarted.SetNode("n3", notReady(""))
	restarted.SetNode("n1", notReady("a"))
	require.Same(t, old, restarted.Status("b", old, after(3*time.Minute)))
	restarted.SetNode("n2", notReady("b"))
	require.Equal(t, map[string]string{
		"n1": "b a: next begin at 2026-01-07T13:00:00Z", "n2": "b b: next begin at 2026-01-07T13:01:00Z", "n3": `b "": next begin at 2026-01-07T13:02:00Z`,
	}, begin(restarted, nhc("x"), after(3*time.Minute), due("n1", 1), due("n2", 1), due("n3", 1)))
	require.Empty(t, pastOf(&status{Groups: []nhcv1alpha1.BudgetGroup{{Name: "a"}}}, noon).Started)
	ahead := &status{Groups: []nhcv1alpha1.BudgetGroup{{Name: "a", LastStarted: new(metav1.NewTime(after(time.Hour)))}}}
	require.Equal(t, map[string]time.Time{"a": noon}, pastOf(ahead, noon).Started, "a clock was ahead")
}

// TestEmptyGroups: a group without nodes is listed while its interval asks for it, and says
// nothing about the whole budget.
func TestEmptyGroups(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", byZone, minInterval(time.Hour), maxConcurrent("100%"))), healthy("b"))
	c.SetNode("n2", remediatedSince("a", noon))
	c.SetNode("n2", Node{})
	got := c.Status("b", &status{}, after(time.Hour-1))
	require.Equal(t, []nhcv1alpha1.BudgetGroup{ofGroup("a", 0, 0, 0, 0, noon), ofGroup("b", 1, 0, 0, 1)}, got.Groups)
	require.Equal(t, new(int32(1)), got.RemediationsAllowed)
	require.Equal(t, []nhcv1alpha1.BudgetGroup{ofGroup("b", 1, 0, 0, 1)}, c.Status("b", got, after(time.Hour)).Groups)
	require.Empty(t, begin(c, nhc("x"), noon, due("machine", 1)))
	require.Len(t, c.Status("b", got, after(time.Hour)).Groups, 2, "a Machine without a Node, under remediation")
}

// TestNamesake: what another budget of the same name has counted is not its own.
func TestNamesake(t *testing.T) {
	t.Parallel()
	c := counts(budgets(budget("b", minInterval(time.Hour))), notReady("a"))
	begin(c, nhc("x"), noon, due("n1", 1))
	c.Admit(nhc("x"), nil, noon)
	namesake := budget("b", minInterval(time.Hour))
	namesake.UID = "other"
	c.SetBudget(Parse(namesake), PastOf(namesake, noon))
	require.Equal(t, []nhcv1alpha1.BudgetGroup{ofGroup("", 1, 1, 0, 1)}, c.Status("b", &namesake.Status, noon).Groups)
}
