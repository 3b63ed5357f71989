// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
)

// act carries out the plans, and keeps what the next sync must know of the outcomes.
func (c *Controller) act(ctx context.Context, s *snapshot, policy *remediation.Policy, plans []*remediation.NodePlan) []remediation.NodeResult {
	results := c.acting(s, policy, plans).Act(ctx, plans)
	c.rememberOutcomes(ctx, s, results)
	c.metrics.countOutcomes(s.nhc.Name, results)
	return results
}

// acting returns how the plans of a snapshot are carried out.
func (c *Controller) acting(s *snapshot, policy *remediation.Policy, plans []*remediation.NodePlan) *reconcile.Acting {
	preflight := &preflight{Controller: c, snapshot: s}
	return &reconcile.Acting{
		Shell: c.Shell, Check: s.nhc, ClockUntrusted: s.clockUntrusted, BudgetRevision: s.budgetRevision, Reserved: s.reserved,
		Confirm: func(ctx context.Context, i int) (execute.Confirmation, error) {
			return preflight.confirm(ctx, plans[i].Node)
		},
		Acquire: func(asking context.Context, i int) (v1alpha1.DecisionReason, func(unknown bool)) {
			return c.AcquireControlPlane(asking, slot.Member{Node: plans[i].Node.Name})
		},
		Withhold: func(i int, reason v1alpha1.DecisionReason) *remediation.NodePlan {
			withheld := *plans[i]
			policy.Withhold(&withheld, &remediation.Withholding{Reason: reason}, c.Clock.Now())
			return &withheld
		},
	}
}

// nameAsRead names a CR in the version that its cache will show, also if it was created in another one (spec 6.8).
// Otherwise status would be written once more.
func (c *Controller) nameAsRead(cr *object.CR) {
	if mapping, _ := c.Remediations.Mapping(cr.GroupVersionKind().GroupKind()); mapping != nil {
		cr.APIVersion = mapping.GroupVersionKind.GroupVersion().String()
	}
}

// rememberOutcomes keeps what the next sync must know of the outcomes.
func (c *Controller) rememberOutcomes(ctx context.Context, s *snapshot, results []remediation.NodeResult) {
	state := s.state
	for _, result := range results {
		node, outcome := result.Plan.Node, result.Outcome
		acted := len(result.Plan.Actions) > 0 && outcome.Result != remediation.Deferred
		if outcome.ReleaseFailed {
			state.releasing.Insert(node.Name)
		} else if node.Lease == nil || acted {
			state.releasing.Delete(node.Name)
		}
		if outcome.CR != nil {
			c.nameAsRead(outcome.CR)
		}
		if cr := outcome.NewCR(); cr != nil {
			c.lastStates.record(s.nhc.Name, cr, false)
		}
		for _, cr := range outcome.Deleted {
			state.deletionRequested[cr.UID] = true
		}
	}
	reconcile.Retry(ctx, c.Shell, &state.attempts, results, func(i int) attemptKey { return attemptOf(results[i].Plan.Node) })
}
