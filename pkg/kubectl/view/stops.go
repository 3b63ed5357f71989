// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
)

// Stop says by which RemediationBudget everything is stopped, empty if nothing is.
func Stop(budgets []*nhcv1alpha1.RemediationBudget) string {
	for _, b := range budgets {
		if budget.Parse(b).StopsAll() {
			return withReason("RemediationBudget "+b.Name+" stops everything: no remediation and no next step begins", strings.TrimSuffix(b.Spec.Reason, ".")) +
				". It goes on with " + EndOf(b)
		}
	}
	return ""
}

// PauseBudget is the RemediationBudget of kubectl nhc pause --cluster.
const PauseBudget = "pause-cluster"

// EndOf is the command that ends a budget which stops everything.
func EndOf(budget *nhcv1alpha1.RemediationBudget) string {
	if budget.Name == PauseBudget {
		return "kubectl nhc resume --cluster"
	}
	return "kubectl delete remediationbudget " + budget.Name
}

// stops is the first line of a view while everything is stopped.
func (o *Overview) stops() (lines [][]Cell) {
	if text := Stop(o.RemediationBudgets); text != "" {
		lines = append(lines, []Cell{{Text: text, Style: Bad}})
	}
	var paused []string
	for _, node := range o.PausedNodes {
		paused = append(paused, node.Name+because(node.Reason))
	}
	if more := len(paused) - shownNames; more > 0 {
		paused = append(paused[:shownNames], fmt.Sprintf("%d more", more))
	}
	if len(paused) > 0 {
		lines = append(lines, []Cell{{Text: Counted(len(o.PausedNodes), "node") + " paused, to go on with kubectl nhc resume node/NAME: ", Style: Warning}, Text(strings.Join(paused, "; "))})
	}
	return lines
}

// PausedNode is a Node for which nothing begins, whether it is healthy or not.
type PausedNode struct {
	Name string `json:"name"`
	// Reason is empty if none was given.
	Reason string `json:"reason,omitempty"`
}

// pausedNodes returns the nodes that have the label of spec 15.1.
func pausedNodes(nodes []*corev1.Node) (paused []PausedNode) {
	for _, node := range nodes {
		if node.Labels[v1alpha1.LabelExclude] == "true" {
			paused = append(paused, PausedNode{Name: node.Name, Reason: node.Annotations[v1alpha1.AnnotationPauseReason]})
		}
	}
	return paused
}

// because is a reason in a sentence, nothing if none was given.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + strings.TrimSuffix(reason, ".")
}
