// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Candidates returns the candidates that no limit has refused yet, in the form of package
// budget.
func Candidates(plans []remediation.NodePlan) (candidates []budget.Candidate) {
	for i := range plans {
		if plan := &plans[i]; (plan.Candidate || plan.Continues) && plan.Withheld == nil {
			candidates = append(candidates, budget.Candidate{
				Node: plan.Node.Name, Since: plan.Node.Verdict.Deadline, Begins: plan.Creates(), Continues: plan.Continues,
			})
		}
	}
	return candidates
}

// WithholdRefused withholds the CR of the candidates that a budget refuses (spec B1). It changes the
// plans in place. It returns the nodes of the other candidates that begin. Budgets hold a
// reservation for them until they get the result of Ends.
func WithholdRefused(policy *remediation.Policy, plans []remediation.NodePlan, refusals map[string]*budget.Refusal, now time.Time) (reserved []string) {
	for i := range plans {
		plan := &plans[i]
		if (!plan.Candidate && !plan.Continues) || plan.Withheld != nil {
			continue
		}
		if refusal := refusals[plan.Node.Name]; refusal != nil {
			policy.Withhold(plan, &remediation.Withholding{Reason: v1alpha1.DecidedBudgetExhausted, Message: refusal.Text(), Until: refusal.Until}, now)
		} else if plan.Candidate && plan.Creates() {
			reserved = append(reserved, plan.Node.Name)
		}
	}
	return reserved
}

// Ends returns the outcomes of the nodes whose plans begin a remediation. All others have not
// begun.
func Ends(results []remediation.NodeResult) map[string]budget.Result {
	ends := make(map[string]budget.Result, len(results))
	for _, result := range results {
		switch {
		case result.Outcome.NewCR() != nil:
			ends[result.Plan.Node.Name] = budget.Begun
		case result.Outcome.Result == remediation.Unknown:
			ends[result.Plan.Node.Name] = budget.Uncertain
		case result.Outcome.Result != remediation.Deferred:
			ends[result.Plan.Node.Name] = budget.Rejected
		}
	}
	return ends
}
