// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Status returns the status of a budget at the instant now (spec B5.2). It returns old itself if
// nothing has changed, or if there is no such budget. The waiting nodes are those that Admit and
// Woken have found last.
func (c *Counts) Status(name string, old *nhcv1alpha1.RemediationBudgetStatus, now time.Time) *nhcv1alpha1.RemediationBudgetStatus {
	budget := c.find(name)
	if budget == nil {
		return old
	}
	status := &nhcv1alpha1.RemediationBudgetStatus{
		ObservedGeneration: budget.Generation, ObservedNodes: new(int32), NotHealthyNodes: new(int32), RemediatingNodes: new(int32),
		Groups: budget.report(now), Conditions: slices.Clone(old.Conditions),
	}
	for i := range status.Groups {
		group := &status.Groups[i]
		*status.ObservedNodes += group.ObservedNodes
		*status.NotHealthyNodes += group.NotHealthyNodes
		*status.RemediatingNodes += group.RemediatingNodes
	}
	status.RemediationsAllowed = budget.leastAllowed(status.Groups, now)
	status.Groups = status.Groups[:min(len(status.Groups), nhcv1alpha1.MaxBudgetGroups)]
	before := meta.FindStatusCondition(old.Conditions, nhcv1alpha1.ConditionBudgetExhausted)
	budget.setConditions(&status.Conditions, c.waitingFor(name), now)
	if now.Before(c.UnaskedUntil) && before != nil && before.Status == metav1.ConditionTrue { // Nothing unknown replaces what is known.
		*meta.FindStatusCondition(status.Conditions, nhcv1alpha1.ConditionBudgetExhausted) = *before
	}
	if equality.Semantic.DeepEqual(old, status) {
		return old
	}
	return status
}

// report returns all groups that have nodes, and those whose past still counts for minInterval or
// cooldown. Groups that allow the fewest remediations come first.
func (b *counted) report(now time.Time) []nhcv1alpha1.BudgetGroup {
	groups := slices.Grow([]nhcv1alpha1.BudgetGroup(nil), len(b.groups))
	for _, g := range b.groups {
		groups = append(groups, g.report(now))
	}
	empty := sets.KeySet(b.started).Union(sets.KeySet(b.within))
	for name := range empty {
		if g := b.group(name); g.observed == 0 && (now.Before(b.nextStart(b.started[name])) || now.Before(g.cooledDown())) {
			groups = append(groups, g.report(now))
		}
	}
	slices.SortFunc(groups, func(a, b nhcv1alpha1.BudgetGroup) int {
		return cmp.Or(compareAllowed(a.RemediationsAllowed, b.RemediationsAllowed), cmp.Compare(b.NotHealthyNodes, a.NotHealthyNodes), cmp.Compare(a.Name, b.Name))
	})
	return groups
}

func (g *group) report(now time.Time) nhcv1alpha1.BudgetGroup {
	reported := nhcv1alpha1.BudgetGroup{
		Name: g.name, ObservedNodes: int32(g.observed), NotHealthyNodes: int32(g.unhealthy), RemediatingNodes: int32(g.remediating),
	}
	if allowed, limited := g.allowed(now); limited {
		reported.RemediationsAllowed = new(int32(allowed))
	}
	if last := g.lastStarted(""); !last.IsZero() {
		reported.LastStarted = new(metav1.NewTime(last.Truncate(time.Second)))
	}
	reported.WithinSince = g.withinSince()
	return reported
}

// leastAllowed returns how many remediations the tightest group with nodes allows. Without
// such a group, it is what the budget allows an empty group.
func (b *counted) leastAllowed(groups []nhcv1alpha1.BudgetGroup, now time.Time) *int32 {
	for i := range groups {
		if groups[i].ObservedNodes > 0 {
			return groups[i].RemediationsAllowed
		}
	}
	return (&group{budget: b}).report(now).RemediationsAllowed
}

// compareAllowed sorts by the allowed number, unlimited groups last.
func compareAllowed(a, b *int32) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*a, *b)
}

// waitingFor returns the nodes that a budget keeps waiting, sorted: only the budget refuses them. So
// nodes of a dry run do not count.
func (c *Counts) waitingFor(budget string) []string {
	var nodes []string
	for _, waiting := range c.waiting {
		for _, w := range waiting.waiters {
			if w.Begins && slices.Contains(w.refusedBy, budget) {
				nodes = append(nodes, w.Node)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// WaitingNodes returns how many nodes a budget keeps waiting.
func (c *Counts) WaitingNodes(budget string) int { return len(c.waitingFor(budget)) }

// setConditions sets Valid and Exhausted, and Stalled for tools that know no other condition.
func (b *counted) setConditions(conditions *[]metav1.Condition, waiting []string, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	valid := metav1.Condition{
		Type: nhcv1alpha1.ConditionBudgetValid, Status: metav1.ConditionTrue, Reason: nhcv1alpha1.ReasonBudgetValid,
		Message: "The budget can be evaluated", ObservedGeneration: b.Generation, LastTransitionTime: at,
	}
	if b.Problem != "" {
		valid.Status, valid.Reason = metav1.ConditionFalse, nhcv1alpha1.ReasonInvalidBudget
		valid.Message = b.Problem + ". Until it is corrected, the budget refuses all Nodes that it selects"
	}
	exhausted := metav1.Condition{
		Type: nhcv1alpha1.ConditionBudgetExhausted, Status: metav1.ConditionFalse, Reason: nhcv1alpha1.ReasonBudgetAvailable,
		Message: "No node waits for the budget", ObservedGeneration: b.Generation, LastTransitionTime: at,
	}
	if len(waiting) > 0 {
		exhausted.Status, exhausted.Reason, exhausted.Message = metav1.ConditionTrue, nhcv1alpha1.ReasonBudgetExhausted, explainWaiting(waiting)
	}
	set := []metav1.Condition{valid, exhausted}
	if b.Problem != "" {
		stalled := valid
		stalled.Type, stalled.Status = v1alpha1.ConditionStalled, metav1.ConditionTrue
		set = append(set, stalled)
	} else {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionStalled)
	}
	for _, condition := range set {
		condition.Message = object.Truncate(condition.Message, maxMessage)
		meta.SetStatusCondition(conditions, condition)
	}
}

// maxNamed is how many nodes a message names. maxMessage is its largest length, which is also the
// limit of the API for an event.
const maxNamed, maxMessage = 10, 1024

func explainWaiting(nodes []string) string {
	if len(nodes) == 1 {
		return "1 node waits: " + nodes[0]
	}
	return fmt.Sprintf("%d nodes wait: %s", len(nodes), object.First(maxNamed, nodes))
}

// Event is one event on a budget.
type Event struct {
	// Type is that of Kubernetes: Normal or Warning.
	Type, Reason, Note string
}

// Events returns what has happened between two statuses of a budget (spec B5.3).
func Events(old, status *nhcv1alpha1.RemediationBudgetStatus) (events []Event) {
	valid, exhausted := nhcv1alpha1.ConditionBudgetValid, nhcv1alpha1.ConditionBudgetExhausted
	if meta.IsStatusConditionFalse(status.Conditions, valid) && messageOf(status, valid) != messageOf(old, valid) {
		events = append(events, Event{Type: corev1.EventTypeWarning, Reason: nhcv1alpha1.ReasonInvalidBudget, Note: messageOf(status, valid)})
	}
	was, is := meta.IsStatusConditionTrue(old.Conditions, exhausted), meta.IsStatusConditionTrue(status.Conditions, exhausted)
	switch {
	case is && !was:
		events = append(events, Event{Type: corev1.EventTypeWarning, Reason: nhcv1alpha1.ReasonBudgetExhausted, Note: messageOf(status, exhausted)})
	case was && !is:
		events = append(events, Event{Type: corev1.EventTypeNormal, Reason: nhcv1alpha1.ReasonBudgetAvailable, Note: messageOf(status, exhausted)})
	}
	return events
}

func messageOf(status *nhcv1alpha1.RemediationBudgetStatus, condition string) string {
	if found := meta.FindStatusCondition(status.Conditions, condition); found != nil {
		return found.Message
	}
	return ""
}
