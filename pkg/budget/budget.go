// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package budget decides which remediations RemediationBudgets allow to begin, over all health
// checks. It is pure: it reads only its arguments and never asks for the time.
//
// Counts has what is counted, and who waits. A candidate needs all budgets that select its node.
package budget

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Budget is a RemediationBudget as it is evaluated.
type Budget struct {
	Name       string
	UID        types.UID
	Generation int64
	// Problem is why the spec cannot be evaluated, empty if it can. Such a budget refuses
	// all nodes that it selects (spec B2.2).
	Problem string
	// Reason is that of the spec.
	Reason string

	selector                    labels.Selector
	topologyKey                 string
	maxUnhealthy, maxConcurrent *intstr.IntOrString
	minInterval                 time.Duration
	windows                     []window
}

// Parse reads the spec of a RemediationBudget. What is wrong with it is the Problem of the
// result. A selector that is none selects all nodes: in doubt nothing begins.
func Parse(budget *v1alpha1.RemediationBudget) *Budget {
	spec := &budget.Spec
	b := &Budget{
		Name: budget.Name, UID: budget.UID, Generation: budget.Generation, Reason: spec.Reason,
		selector: labels.Everything(), topologyKey: spec.TopologyKey, maxUnhealthy: spec.MaxUnhealthy, maxConcurrent: spec.MaxConcurrent,
	}
	if spec.MinInterval != nil {
		b.minInterval = spec.MinInterval.Duration
	}
	b.Problem = b.parse(spec)
	return b
}

// Unreadable stands for a RemediationBudget that cannot be understood at all.
func Unreadable(object metav1.Object, problem string) *Budget {
	return &Budget{Name: object.GetName(), UID: object.GetUID(), Generation: object.GetGeneration(), Problem: problem, selector: labels.Everything()}
}

// parse reads what may be wrong, and returns the first thing that is.
func (b *Budget) parse(spec *v1alpha1.RemediationBudgetSpec) (problem string) {
	selector, err := metav1.LabelSelectorAsSelector(spec.NodeSelector)
	switch {
	case spec.NodeSelector == nil:
		return "nodeSelector must be specified, {} selects all Nodes"
	case err != nil:
		return "Invalid selector: " + err.Error()
	}
	b.selector = selector
	if spec.MaxUnhealthy == nil && spec.MaxConcurrent == nil && spec.MinInterval == nil {
		return "one of maxUnhealthy, maxConcurrent and minInterval should be specified"
	}
	for name, limit := range map[string]*intstr.IntOrString{"maxUnhealthy": spec.MaxUnhealthy, "maxConcurrent": spec.MaxConcurrent} {
		if limit == nil {
			continue
		}
		if _, valid := health.Scale(*limit, 0); !valid {
			problem = cmp.Or(problem, fmt.Sprintf("%s is neither a number nor a percentage: %s", name, limit))
		}
	}
	if spec.MinInterval != nil && b.minInterval <= 0 {
		problem = cmp.Or(problem, "minInterval must be positive")
	}
	for i := range spec.Schedules {
		opening, err := parseWindow(&spec.Schedules[i])
		if err != nil {
			return cmp.Or(problem, fmt.Sprintf("schedule %d: %v", i+1, err))
		}
		b.windows = append(b.windows, opening)
	}
	return problem
}

// selects reports whether a node with these labels counts.
func (b *Budget) selects(set labels.Set) bool { return b.selector.Matches(set) }

// groupOf returns the name of the group of a node that counts.
func (b *Budget) groupOf(set labels.Set) string {
	if b.topologyKey == "" {
		return ""
	}
	return set[b.topologyKey]
}

// numbers are those of one group.
type numbers struct {
	observed, unhealthy, remediating int
	// lastStarted is when the last remediation began, zero if that is not known.
	lastStarted time.Time
}

// Refusal is why a budget keeps a remediation from beginning.
type Refusal struct {
	// Budget is the name of the budget.
	Budget string
	// Message has the numbers (spec B5.1).
	Message string
	// Until is when time alone may change that, zero if it does not.
	Until time.Time
}

// bound is a budget at an instant.
type bound struct {
	*Budget
	now     time.Time
	applies bool
	// until is when that changes, zero if it does not.
	until time.Time
}

// at evaluates the schedules of a budget.
func (b *Budget) at(now time.Time) bound {
	at := bound{Budget: b, now: now, applies: true}
	if len(b.windows) > 0 && b.Problem == "" {
		at.applies, at.until = openAt(b.windows, now)
	}
	return at
}

// refusal returns why one more remediation may not begin in a group, and nil if it may. The
// numbers include the node, but for its remediation. Again means that the node is under
// remediation already.
func (b *bound) refusal(group string, n numbers, again bool) *Refusal {
	if !b.applies {
		return nil
	}
	if b.Problem != "" {
		return &Refusal{Budget: b.Name, Message: b.Name + ": " + b.Problem}
	}
	finding, end := "", b.until
	if limit, limited := scaled(b.maxUnhealthy, n.observed); limited && n.unhealthy > limit {
		finding = fmt.Sprintf("%d of at most %d nodes are not healthy", n.unhealthy, limit)
	} else if limit, limited := scaled(b.maxConcurrent, n.observed); limited && !again && n.remediating >= limit {
		finding = fmt.Sprintf("%d of at most %d nodes are under remediation", n.remediating, limit)
	} else if next := b.nextStart(n); b.now.Before(next) {
		finding = "next begin at " + next.UTC().Format(time.RFC3339)
		end = health.Earliest(b.until, next)
	}
	if finding == "" {
		return nil
	}
	return &Refusal{Budget: b.Name, Message: b.explain(group, finding), Until: end}
}

// nextStart returns when minInterval permits the next beginning.
func (b *Budget) nextStart(n numbers) time.Time {
	if b.minInterval == 0 || n.lastStarted.IsZero() {
		return time.Time{}
	}
	return n.lastStarted.Add(b.minInterval)
}

// explain puts a finding into the words of spec B5.1.
func (b *bound) explain(group, finding string) string {
	message := b.Name
	if b.topologyKey != "" {
		message += " " + cmp.Or(group, `""`)
	}
	message += ": " + finding
	if !b.until.IsZero() {
		message += ", until " + b.until.UTC().Format(time.RFC3339)
	}
	if b.Reason != "" {
		message += ". " + b.Reason
	}
	return message
}

// allowed returns how many more nodes of a group may be taken into remediation now, and false
// if the budget does not limit the number.
func (b *bound) allowed(n numbers) (allowed int, limited bool) {
	if !b.applies {
		return 0, false
	}
	if b.Problem != "" {
		return 0, true
	}
	atMost := func(limit int) {
		if !limited || limit < allowed {
			allowed = limit
		}
		limited = true
	}
	if limit, has := scaled(b.maxUnhealthy, n.observed); has {
		if n.unhealthy > limit {
			atMost(0)
		}
		atMost(limit - n.remediating)
	}
	if limit, has := scaled(b.maxConcurrent, n.observed); has {
		atMost(limit - n.remediating)
	}
	if b.minInterval > 0 {
		atMost(1)
		if b.now.Before(b.nextStart(n)) {
			atMost(0)
		}
	}
	return max(0, allowed), limited
}

// scaled returns the number that a limit stands for, and false if there is none.
func scaled(limit *intstr.IntOrString, total int) (n int, limited bool) {
	if limit == nil {
		return 0, false
	}
	n, _ = health.Scale(*limit, total) // Parse has seen to it that it is a number.
	return n, true
}
