// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Candidates returns the candidates that no limit has refused yet, as budgets know them.
func Candidates(plans []remediation.NodePlan) (candidates []budget.Candidate) {
	for i := range plans {
		if plan := &plans[i]; plan.Candidate && plan.Withheld == nil {
			candidates = append(candidates, budget.Candidate{Node: plan.Node.Name, Since: plan.Node.Verdict.Deadline, Begins: plan.Creates()})
		}
	}
	return candidates
}

// Refuse withholds the first CR of the candidates that a budget refuses (spec B1). It changes the
// plans in place. It returns the nodes of the others that begin: budgets have a reservation for
// them until Ends are told.
func Refuse(policy *remediation.Policy, plans []remediation.NodePlan, refusals map[string]*budget.Refusal, now time.Time) (reserved []string) {
	for i := range plans {
		plan := &plans[i]
		if !plan.Candidate || plan.Withheld != nil {
			continue
		}
		if refusal := refusals[plan.Node.Name]; refusal != nil {
			policy.Withhold(plan, &remediation.Withholding{Reason: v1alpha1.DecidedBudgetExhausted, Message: refusal.Text(), Until: refusal.Until}, now)
		} else if plan.Creates() {
			reserved = append(reserved, plan.Node.Name)
		}
	}
	return reserved
}

// Ends returns what became of the nodes that have begun, or were to. All others have not begun.
func Ends(results []remediation.NodeResult) map[string]budget.Result {
	ends := make(map[string]budget.Result, len(results))
	for _, result := range results {
		switch {
		case result.Outcome.NewCR() != nil:
			ends[result.Plan.Node.Name] = budget.Begun
		case result.Outcome.Uncertain():
			ends[result.Plan.Node.Name] = budget.Uncertain
		case result.Outcome.Result != remediation.Deferred:
			ends[result.Plan.Node.Name] = budget.Rejected
		}
	}
	return ends
}
