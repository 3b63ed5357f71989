// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// RemediationBudget returns advice about one that admission accepts.
func RemediationBudget(object *nhcv1alpha1.RemediationBudget, facts *Facts) []Finding {
	var f findings
	spec := &object.Spec
	f.schedules(object)
	f.refusesAll(spec)
	if spec.NodeSelector != nil {
		f.severalRoles("spec.nodeSelector", spec.NodeSelector)
	}
	if spec.NodeSelector == nil || !facts.NodesKnown {
		f.boundsNothing(spec, nil)
		return f
	}
	selected := selectedNodes(spec.NodeSelector, facts.Nodes)
	if len(selected) == 0 {
		f.advise("spec.nodeSelector", "check the labels with kubectl get nodes --show-labels", "No node has these labels: the budget bounds nothing")
		return f
	}
	without := 0
	for _, node := range selected {
		if _, labelled := node.Labels[spec.TopologyKey]; !labelled {
			without++
		}
	}
	if spec.TopologyKey != "" && without == len(selected) {
		f.advise("spec.topologyKey", "check the label with kubectl get nodes --show-labels", "No selected node has the label %s: all of them are one group", spec.TopologyKey)
	}
	f.boundsNothing(spec, groupSizes(spec.TopologyKey, selected))
	return f
}

// schedules judges each schedule as the controller reads it (spec B2.2).
func (f *findings) schedules(object *nhcv1alpha1.RemediationBudget) {
	for i := range object.Spec.ActiveDuring {
		alone := object.DeepCopy()
		alone.Spec.ActiveDuring = alone.Spec.ActiveDuring[i : i+1]
		problem := budget.Parse(alone).Problem
		if problem == "" {
			continue
		}
		problem = strings.TrimPrefix(problem, "schedule 1: ")
		f.advise(fmt.Sprintf("spec.activeDuring[%d]", i), "correct the schedule", "The controller cannot evaluate it, and lets nothing begin: %s", problem)
	}
	if spec := &object.Spec; len(spec.ActiveDuring) > 0 && !none(spec.MaxConcurrent) {
		f.advise("spec.activeDuring", "leave it out, or add a budget without it for the rest of the time", "At all other times this budget limits nothing: remediation is unlimited then, not forbidden")
	}
}

// none reports whether a limit is 0.
func none(limit *intstr.IntOrString) bool {
	if limit == nil {
		return false
	}
	value, ok := health.Scale(*limit, largest)
	return ok && value == 0
}

// refusesAll judges whether nothing ever begins.
func (f *findings) refusesAll(spec *nhcv1alpha1.RemediationBudgetSpec) {
	if none(spec.MaxUnhealthy) {
		f.advise("spec.maxUnhealthy", "use at least 1", "The node to be remediated is not healthy, and counts: with %s, nothing ever begins", spec.MaxUnhealthy.String())
	}
	// With a reason it is meant, and with a schedule it ends.
	if none(spec.MaxConcurrent) && len(spec.ActiveDuring) == 0 && spec.Reason == "" {
		f.advise("spec.maxConcurrent", "give a reason if that is meant, otherwise use at least 1", "With %s, nothing begins as long as the budget exists", spec.MaxConcurrent.String())
	}
}

// groupSizes are the numbers of nodes in the groups of a budget.
func groupSizes(topologyKey string, nodes []*corev1.Node) []int {
	sizes := map[string]int{}
	for _, node := range nodes {
		group := ""
		if topologyKey != "" {
			group = node.Labels[topologyKey]
		}
		sizes[group]++
	}
	list := make([]int, 0, len(sizes))
	for _, size := range sizes {
		list = append(list, size)
	}
	return list
}

// boundsNothing judges whether some limit can ever be exceeded, in groups of these sizes, or without
// any in groups of any size.
func (f *findings) boundsNothing(spec *nhcv1alpha1.RemediationBudgetSpec, groups []int) {
	bounds := func(limit *intstr.IntOrString) bool {
		if limit == nil {
			return false
		}
		sizes := groups
		if sizes == nil {
			sizes = poolSizes(limit)
		}
		return slices.ContainsFunc(sizes, func(size int) bool {
			value, ok := health.Scale(*limit, size)
			return ok && value < size
		})
	}
	if spec.MinInterval != nil || bounds(spec.MaxUnhealthy) || bounds(spec.MaxConcurrent) {
		return
	}
	f.advise("spec", "lower maxUnhealthy or maxConcurrent, or set minInterval", "It bounds nothing: it allows all nodes of each group at the same time")
}
