// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// NextNode is a node with a condition that makes it unhealthy once it has lasted for its
// duration, or has already done so and the controller has not reported it yet.
type NextNode struct {
	Name      string `json:"name"`
	Condition string `json:"condition"`
	// Reason is the one that the condition gives.
	Reason string       `json:"reason,omitempty"`
	Since  *metav1.Time `json:"since,omitempty"`
	// Doubt is why Since is not the lastTransitionTime of the condition, empty if it is.
	Doubt string `json:"doubt,omitempty"`
	// Unhealthy is when the node becomes, or became, unhealthy. It is absent for a condition
	// without lastTransitionTime, which never expires.
	Unhealthy *metav1.Time `json:"unhealthy,omitempty"`
	// Remediating means that the node still has remediation objects, for an earlier condition.
	Remediating bool `json:"remediating,omitempty"`
}

// nextNodes returns the selected nodes that are next, as the Node objects say (spec 7.3).
func nextNodes(nhc *v1alpha1.NodeHealthCheck, snapshot *Snapshot, now time.Time) []NextNode {
	selector, err := metav1.LabelSelectorAsSelector(&nhc.Spec.Selector)
	if err != nil {
		return nil // Such a spec selects nothing.
	}
	listed := map[string]*v1alpha1.UnhealthyNode{}
	for i := range nhc.Status.UnhealthyNodes {
		listed[nhc.Status.UnhealthyNodes[i].Name] = &nhc.Status.UnhealthyNodes[i]
	}
	var next []NextNode
	for _, node := range snapshot.Nodes {
		// Spec 7.7: where there are MachineHealthChecks, nodes that terminate are theirs.
		if !selector.Matches(labels.Set(node.Labels)) || (len(snapshot.MachineHealthChecks) > 0 && remediation.Terminating(node.Status.Conditions)) {
			continue
		}
		entry := listed[node.Name]
		verdict := health.JudgeNode(nhc.Spec.UnhealthyConditions, health.EvidenceOf(node, nil), now)
		if verdict.State == health.Healthy || (entry != nil && !soon(entry)) {
			continue
		}
		next = append(next, newNextNode(node, verdict, entry))
	}
	slices.SortStableFunc(next, func(a, b NextNode) int { return compareInstants(a.Unhealthy, b.Unhealthy) })
	return next
}

func newNextNode(node *corev1.Node, verdict health.Verdict, entry *v1alpha1.UnhealthyNode) NextNode {
	condition := string(verdict.Type) + "=" + string(verdict.Status)
	if verdict.NeverReported() {
		condition = "never reported"
	}
	next := NextNode{
		Name: node.Name, Condition: condition, Reason: verdict.Reason,
		Since: instant(verdict.Since), Doubt: verdict.Doubt, Unhealthy: instant(verdict.Deadline), Remediating: entry != nil && len(entry.Remediations) > 0,
	}
	if entry != nil {
		next.Unhealthy = entry.Decision.NextCheckTime
	}
	return next
}

// soon reports whether the controller expects a node that it lists to become unhealthy. When, it knows better than a
// client that has not followed the Node (spec 7.2).
func soon(entry *v1alpha1.UnhealthyNode) bool {
	decision := entry.Decision
	return decision != nil && decision.Reason == v1alpha1.DecidedSoonUnhealthy && decision.NextCheckTime != nil
}

// compareInstants puts what never comes last.
func compareInstants(a, b *metav1.Time) int {
	switch {
	case a != nil && b != nil:
		return a.Compare(b.Time)
	case a != nil:
		return -1
	case b != nil:
		return 1
	}
	return 0
}
