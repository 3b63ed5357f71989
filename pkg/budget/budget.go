// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package budget decides which remediations RemediationBudgets allow to begin, over all health
// checks. It is pure: it reads only its arguments and never asks for the time.
//
// Counts has the numbers, and the askers that wait. A request needs all budgets that select its
// node.
package budget

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
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

	// selector matches labels of nodes or, if machineNamespace is set, of the Machines there.
	selector                    labels.Selector
	machineNamespace            string
	topologyKey                 string
	maxUnhealthy, maxConcurrent *intstr.IntOrString
	minInterval, cooldown       time.Duration
	windows                     []window
}

// Parse reads the spec of a RemediationBudget. The Problem of the result says what is wrong
// with it. An invalid selector selects all nodes: in doubt nothing begins.
func Parse(budget *nhcv1alpha1.RemediationBudget) *Budget {
	spec := &budget.Spec
	b := &Budget{
		Name: budget.Name, UID: budget.UID, Generation: budget.Generation, Reason: spec.Reason,
		selector: labels.Everything(), topologyKey: spec.TopologyKey, maxUnhealthy: spec.MaxUnhealthy, maxConcurrent: spec.MaxConcurrent,
	}
	if spec.MinInterval != nil {
		b.minInterval = spec.MinInterval.Duration
	}
	if spec.Cooldown != nil {
		b.cooldown = spec.Cooldown.Duration
	}
	b.Problem = b.parse(spec)
	return b
}

// Unreadable stands for a RemediationBudget that cannot be understood at all.
func Unreadable(object metav1.Object, problem string) *Budget {
	return &Budget{Name: object.GetName(), UID: object.GetUID(), Generation: object.GetGeneration(), Problem: problem, selector: labels.Everything()}
}

// parse reads what may be wrong, and returns the first thing that is.
func (b *Budget) parse(spec *nhcv1alpha1.RemediationBudgetSpec) (problem string) {
	if problem := b.parseSelector(spec); problem != "" {
		return problem
	}
	if spec.MaxUnhealthy == nil && spec.MaxConcurrent == nil && spec.MinInterval == nil {
		return "one of maxUnhealthy, maxConcurrent and minInterval should be specified"
	}
	if problem := cmp.Or(limitProblem("maxUnhealthy", spec.MaxUnhealthy), limitProblem("maxConcurrent", spec.MaxConcurrent)); problem != "" {
		return problem
	}
	if spec.MinInterval != nil && b.minInterval <= 0 {
		return "minInterval must be positive"
	}
	switch {
	case spec.Cooldown != nil && b.cooldown <= 0:
		return "cooldown must be positive"
	case spec.Cooldown != nil && spec.MaxUnhealthy == nil:
		return "cooldown needs maxUnhealthy"
	}
	for i := range spec.ActiveDuring {
		window, err := parseWindow(&spec.ActiveDuring[i])
		if err != nil {
			return fmt.Sprintf("schedule %d: %v", i+1, err)
		}
		b.windows = append(b.windows, window)
	}
	return ""
}

// parseSelector reads which nodes, or Machines, are selected.
func (b *Budget) parseSelector(spec *nhcv1alpha1.RemediationBudgetSpec) (problem string) {
	field, selector, namespace := "nodeSelector", spec.NodeSelector, ""
	switch machines := spec.MachineSelector; {
	case (selector == nil) == (machines == nil):
		return "exactly one of nodeSelector and machineSelector must be specified; nodeSelector: {} selects all Nodes"
	case machines != nil && machines.Namespace == "":
		return "machineSelector needs a namespace"
	case machines != nil:
		field, selector, namespace = "machineSelector", &machines.Selector, machines.Namespace
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return fmt.Sprintf("Invalid %s: %v", field, err)
	}
	b.selector, b.machineNamespace = parsed, namespace
	return ""
}

func limitProblem(field string, limit *intstr.IntOrString) string {
	if limit == nil {
		return ""
	}
	if _, valid := health.Scale(*limit, 0); !valid {
		return fmt.Sprintf("%s must be a number or a percentage, and not negative: %s", field, limit)
	}
	return ""
}

// phaseAt evaluates the schedules. A budget with a problem always applies.
func (b *Budget) phaseAt(now time.Time) phase {
	if b.Problem != "" {
		return phase{applies: true, from: now}
	}
	return phaseAt(b.windows, now)
}

// selects reports whether a node counts, and the name of its group.
func (b *Budget) selects(node *Node) (group string, selected bool) {
	set, exists := labels.Set(node.Labels), true
	if b.machineNamespace != "" {
		set, exists = node.Machine.Labels, node.Machine.Namespace == b.machineNamespace
	}
	if !exists || !b.selector.Matches(set) {
		return "", false
	}
	if b.topologyKey == "" {
		return "", true
	}
	return set[b.topologyKey], true
}

// StopsAll reports whether the budget lets no remediation begin, at any time.
func (b *Budget) StopsAll() bool {
	most, limited := scaled(b.maxConcurrent, 1)
	return b.Problem == "" && b.machineNamespace == "" && b.selector.Empty() && len(b.windows) == 0 && limited && most == 0
}

// noun is what the budget counts.
func (b *Budget) noun() string {
	if b.machineNamespace != "" {
		return "Machines"
	}
	return "nodes"
}

// nextStart returns when minInterval permits a beginning after the last one.
func (b *Budget) nextStart(last time.Time) time.Time {
	if b.minInterval == 0 || last.IsZero() {
		return time.Time{}
	}
	return last.Add(b.minInterval)
}

// scaled returns the value of a limit, and false if there is no limit.
func scaled(limit *intstr.IntOrString, total int) (n int, limited bool) {
	if limit == nil {
		return 0, false
	}
	n, _ = health.Scale(*limit, total) // Parse has seen to it that it is a number.
	return n, true
}
