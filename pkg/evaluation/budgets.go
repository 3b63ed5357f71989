// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// asks reports whether a plan has to ask RemediationBudgets: it is a candidate that no limit has refused yet.
func asks(plan *remediation.NodePlan) bool {
	return (plan.Candidate || plan.Continues) && plan.Withheld == nil
}

// Requests returns what the plans ask, in the form of package budget.
func Requests(plans []*remediation.NodePlan) (requests []budget.Request) {
	for _, plan := range plans {
		if asks(plan) {
			requests = append(requests, budget.Request{
				Node: plan.Node.Name, Since: plan.Node.Verdict.Deadline, Begins: plan.Creates(), Continues: plan.Continues,
			})
		}
	}
	return requests
}

// WithholdRefused lets withhold decide again about the candidates that a budget refuses (spec B1). It returns the names
// of the other candidates that begin. Budgets hold a reservation for them until they get the result of Usages.
func WithholdRefused(plans []*remediation.NodePlan, refusals map[string]*budget.Refusal, withhold func(i int, withheld *remediation.Withholding)) (reserved []string) {
	for i, plan := range plans {
		if !asks(plan) {
			continue
		}
		if refusal := refusals[plan.Node.Name]; refusal != nil {
			withhold(i, &remediation.Withholding{Reason: v1alpha1.DecidedBudgetExhausted, Message: refusal.Message, Until: refusal.Until})
		} else if plan.Candidate && plan.Creates() {
			reserved = append(reserved, plan.Node.Name)
		}
	}
	return reserved
}

// Usages returns the outcomes of the nodes whose plans begin a remediation. All others have not begun. Two Machines may
// name one Node.
func Usages(results []remediation.NodeResult) map[string]budget.Usage {
	usages := make(map[string]budget.Usage, len(results))
	for _, result := range results {
		name := result.Plan.Node.Name
		switch {
		case result.Outcome.Begun():
			usages[name] = budget.Begun
		case usages[name] == budget.Begun:
		case result.Outcome.Result == remediation.Unknown:
			usages[name] = budget.Uncertain
		case result.Outcome.Result != remediation.Deferred && usages[name] == budget.NotBegun:
			usages[name] = budget.Rejected
		}
	}
	return usages
}
