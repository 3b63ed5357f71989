// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/attempts"
	"github.com/nhc-controller/nhc-controller/pkg/batch"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// Acting is how the plans of one sync are carried out. Plans have indexes. The functions may be called from any
// goroutine.
type Acting struct {
	*Shell
	// Check is the health check by which the plans were made, with what else they depend on.
	Check          metav1.Object
	ClockUntrusted bool
	BudgetRevision int64
	// Reserved are the names for which budgets hold a reservation until the outcomes are known.
	Reserved []string
	// Confirm reads the target of a plan live, and judges it again.
	Confirm func(ctx context.Context, i int) (execute.Confirmation, error)
	// Acquire reserves the control plane slot for a plan. It returns why the slot is refused, or a function that gives it
	// back. Withhold returns the plan without what needs the slot.
	Acquire  func(asking context.Context, i int) (v1alpha1.DecisionReason, func(unknown bool))
	Withhold func(i int, reason v1alpha1.DecisionReason) *remediation.NodePlan
	// Announce is called before a plan with the slot is carried out, nil if nothing has to be announced.
	Announce func(ctx context.Context, i int) error
}

// Act carries out one batch of plans that begin nothing, then one batch of the others (spec 8.4). It returns the plans
// that were carried out, and their outcomes, in the same order. A failure of one plan does not affect the others.
func (a *Acting) Act(ctx context.Context, plans []*remediation.NodePlan) []remediation.NodeResult {
	turns, results := make([]batch.Turn, len(plans)), make([]remediation.NodeResult, len(plans))
	for i, plan := range plans {
		turns[i], results[i].Plan = turnOf(plan), plan
	}
	outcomes := batch.Act(ctx, a.Clock, turns, func(asking context.Context, i int) remediation.Outcome {
		switch {
		case ctx.Err() != nil || a.outdated():
			return remediation.Outcome{Result: remediation.Deferred}
		case turns[i] == batch.ControlPlane:
			return a.carryOutControlPlane(ctx, asking, i, &results[i])
		default:
			return a.carryOut(ctx, i, plans[i])
		}
	})
	for i, outcome := range outcomes {
		results[i].Outcome = outcome
		if cr := outcome.NewCR(); cr != nil {
			a.ownNew(a.Check, cr)
		}
	}
	a.EndReservations(a.Check, a.Reserved, results)
	return results
}

// turnOf returns when a plan is carried out.
func turnOf(plan *remediation.NodePlan) batch.Turn {
	switch {
	case len(plan.Actions) == 0:
		return batch.Never
	case !plan.Creates():
		return batch.Ending
	case plan.Candidate && plan.Node.ControlPlane:
		return batch.ControlPlane
	default:
		return batch.Beginning
	}
}

// outdated reports whether the health check has changed since the plans were made, for example by a pause, is being
// deleted or gone, the clock is no longer trusted, or the spec of a RemediationBudget has changed. It asks the cache: a
// request for each plan would cost more than it saves.
func (a *Acting) outdated() bool {
	check := watches.Cached[metav1.Object](a.Checks.Store, cache.MetaObjectToName(a.Check).String())
	return check == nil || check.GetUID() != a.Check.GetUID() || check.GetGeneration() != a.Check.GetGeneration() ||
		!maps.Equal(check.GetAnnotations(), a.Check.GetAnnotations()) ||
		(check.GetDeletionTimestamp() != nil) != (a.Check.GetDeletionTimestamp() != nil) ||
		a.Shell.ClockUntrusted() != a.ClockUntrusted || a.Budgets.Revision() != a.BudgetRevision
}

// carryOutControlPlane carries out the plan of a control plane node or Machine. Until the outcome is known, no other one
// begins. Without the slot it carries out the rest of the plan. It sets the plan that is carried out.
func (a *Acting) carryOutControlPlane(ctx, asking context.Context, i int, result *remediation.NodeResult) remediation.Outcome {
	reason, release := a.Acquire(asking, i)
	if reason != "" {
		result.Plan = a.Withhold(i, reason)
		return a.carryOut(ctx, i, result.Plan)
	}
	if a.Announce != nil {
		if err := a.Announce(ctx, i); err != nil {
			release(false)
			return remediation.Outcome{Result: remediation.Failed, Reason: v1alpha1.DecidedUpdateFailed, Err: err}
		}
	}
	outcome := a.carryOut(ctx, i, result.Plan)
	release(outcome.Result == remediation.Unknown)
	return outcome
}

// carryOut carries out a plan.
func (a *Acting) carryOut(ctx context.Context, i int, plan *remediation.NodePlan) remediation.Outcome {
	key := cache.MetaObjectToName(a.Check)
	executor := &execute.Executor{
		Client: a.Dynamic, Mapping: a.Mapping, Kube: a.Kube, LeaseNamespace: a.LeaseNamespace, Now: a.Clock.Now,
		Confirm: func(ctx context.Context, _ *remediation.Node) (execute.Confirmation, error) { return a.Confirm(ctx, i) },
		OnWrite: func(resource schema.GroupResource, version string) {
			a.Writes.Wrote(key.String(), resource, version, a.Clock.Now())
		},
	}
	owner := a.Owner(key, a.Check.GetUID())
	owner.ResourceVersion = a.Check.GetResourceVersion()
	return executor.Execute(ctx, owner, plan)
}

// Retry schedules the next attempts after these results, and logs their failures as one error: thousands may have one
// cause, such as a quota. A missing permission concerns a whole kind: whether that is the cause is asked again. keyOf returns
// the key of a result in attempts.
func Retry[K comparable](ctx context.Context, s *Shell, next *attempts.Attempts[K], results []remediation.NodeResult, keyOf func(i int) K) {
	logger, now, failed, first := klog.FromContext(ctx), s.Clock.Now(), 0, 0
	for i, result := range results {
		switch outcome := result.Outcome; {
		case outcome.Err != nil:
			next.Failed(keyOf(i), outcome, now)
			if apierrors.IsForbidden(outcome.Err) {
				s.Remediations.RecheckWritten(result.Plan.Actions)
			}
			logger.V(4).Info("Acting on a node failed, retrying", "node", result.Plan.Node.Name, "cause", outcome.Err.Error())
			if failed++; failed == 1 {
				first = i
			}
		case outcome.Result == remediation.Recovered: // Until the cache shows it, the same would be done again.
			next.Failed(keyOf(i), outcome, now)
		case len(result.Plan.Actions) > 0 && outcome.Result != remediation.Deferred:
			next.Succeeded(keyOf(i))
		}
	}
	if failed > 0 {
		logger.Error(results[first].Outcome.Err, "Acting on nodes failed, retrying", "nodes", failed, "first", results[first].Plan.Node.Name)
	}
}
