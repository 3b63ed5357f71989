// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Requests returns the candidates that no limit has refused yet, in the form of package
// budget.
func Requests(plans []remediation.NodePlan) (candidates []budget.Request) {
	for i := range plans {
		if plan := &plans[i]; (plan.Candidate || plan.Continues) && plan.Withheld == nil {
			candidates = append(candidates, budget.Request{
				Node: plan.Node.Name, Since: plan.Node.Verdict.Deadline, Begins: plan.Creates(), Continues: plan.Continues,
			})
		}
	}
	return candidates
}

// WithholdRefused withholds the CR of the candidates that a budget refuses (spec B1). It changes the
// plans in place. It returns the nodes of the other candidates that begin. Budgets hold a
// reservation for them until they get the result of Usages.
func WithholdRefused(policy *remediation.Policy, plans []remediation.NodePlan, refusals map[string]*budget.Refusal, now time.Time) (reserved []string) {
	for i := range plans {
		plan := &plans[i]
		if (!plan.Candidate && !plan.Continues) || plan.Withheld != nil {
			continue
		}
		if refusal := refusals[plan.Node.Name]; refusal != nil {
			policy.Withhold(plan, &remediation.Withholding{Reason: v1alpha1.DecidedBudgetExhausted, Message: refusal.Message, Until: refusal.Until}, now)
		} else if plan.Candidate && plan.Creates() {
			reserved = append(reserved, plan.Node.Name)
		}
	}
	return reserved
}

// Usages returns the outcomes of the nodes whose plans begin a remediation. All others have not
// begun.
func Usages(results []remediation.NodeResult) map[string]budget.Usage {
	usages := make(map[string]budget.Usage, len(results))
	for _, result := range results {
		switch {
		case result.Outcome.NewCR() != nil:
			usages[result.Plan.Node.Name] = budget.Begun
		case result.Outcome.Result == remediation.Unknown:
			usages[result.Plan.Node.Name] = budget.Uncertain
		case result.Outcome.Result != remediation.Deferred:
			usages[result.Plan.Node.Name] = budget.Rejected
		}
	}
	return usages
}
