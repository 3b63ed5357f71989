// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Stop says by which RemediationBudget everything is stopped, empty if nothing is.
func Stop(budgets []*nhcv1alpha1.RemediationBudget) string {
	for _, budget := range budgets {
		if StopsAll(budget) {
			return withReason("RemediationBudget "+budget.Name+" stops everything: no remediation and no next step begins", strings.TrimSuffix(budget.Spec.Reason, ".")) +
				". It goes on with kubectl delete remediationbudget " + budget.Name
		}
	}
	return ""
}

// stops is the first line of a view while everything is stopped.
func (o *Overview) stops() (lines [][]Cell) {
	if text := Stop(o.RemediationBudgets); text != "" {
		lines = append(lines, []Cell{{Text: text, Style: Bad}})
	}
	return lines
}

// StopsAll reports whether a budget lets no remediation begin, at any time.
func StopsAll(budget *nhcv1alpha1.RemediationBudget) bool {
	spec := &budget.Spec
	if spec.MachineSelector != nil || spec.NodeSelector == nil || len(spec.NodeSelector.MatchLabels)+len(spec.NodeSelector.MatchExpressions) > 0 || len(spec.ActiveDuring) > 0 || spec.MaxConcurrent == nil {
		return false
	}
	most, ok := health.Scale(*spec.MaxConcurrent, 1)
	return ok && most == 0
}
