// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/batch"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
)

// act carries out one batch of plans that begin nothing, then one batch of the others (spec 8.4). It returns the
// outcomes in the same order. A failure for one node does not affect the others.
func (c *Controller) act(ctx context.Context, s *snapshot, e *evaluation.Evaluated, plans []remediation.NodePlan) []remediation.NodeResult {
	results, turns := make([]remediation.NodeResult, len(plans)), make([]batch.Turn, len(plans))
	for i := range plans {
		results[i].Plan, turns[i] = &plans[i], turnOf(&plans[i])
	}
	actor := c.newActor(s, &e.Policy)
	outcomes := batch.Act(ctx, c.Clock, turns, func(asking context.Context, i int) (outcome remediation.Outcome) {
		if turns[i] != batch.ControlPlane {
			return actor.carryOut(ctx, &plans[i])
		}
		results[i].Plan, outcome = actor.carryOutControlPlane(ctx, asking, &plans[i])
		return outcome
	})
	for i := range outcomes {
		results[i].Outcome = outcomes[i]
	}
	c.rememberOutcomes(ctx, s, results)
	c.metrics.countOutcomes(s.nhc.Name, results)
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

// actor carries out the plans of one sync. Its methods may be called from any goroutine.
type actor struct {
	*preflight
	policy   *remediation.Policy
	executor *execute.Executor
}

func (c *Controller) newActor(s *snapshot, policy *remediation.Policy) *actor {
	nhc, preflight := s.nhc.Name, &preflight{Controller: c, snapshot: s}
	return &actor{preflight: preflight, policy: policy, executor: &execute.Executor{
		Client:         c.Dynamic,
		Mapping:        c.locate,
		Confirm:        preflight.confirm,
		Kube:           c.Kube,
		LeaseNamespace: c.LeaseNamespace,
		Now:            c.Clock.Now,
		OnWrite: func(resource schema.GroupResource, version string) {
			c.Writes.Wrote(nhc, resource, version, c.Clock.Now())
		},
	}}
}

// carryOut carries out a plan, unless the spec has changed since it was made.
func (a *actor) carryOut(ctx context.Context, plan *remediation.NodePlan) remediation.Outcome {
	if a.outdated(a.snapshot) {
		return remediation.Outcome{Result: remediation.Deferred}
	}
	return a.executor.Execute(ctx, a.policy.Owner, plan)
}

// carryOutControlPlane carries out the plan of a control plane node. Until the outcome of the creation is
// known, no other control plane node begins. Without the slot it carries out the rest of the plan. It returns
// the plan that was carried out.
func (a *actor) carryOutControlPlane(ctx, asking context.Context, plan *remediation.NodePlan) (*remediation.NodePlan, remediation.Outcome) {
	if a.outdated(a.snapshot) {
		return plan, remediation.Outcome{Result: remediation.Deferred}
	}
	reason, release := a.AcquireControlPlane(asking, slot.Member{Node: plan.Node.Name})
	if reason != "" {
		withheld := *plan
		a.policy.Withhold(&withheld, &remediation.Withholding{Reason: reason}, a.Clock.Now())
		plan, release = &withheld, func(bool) {}
	}
	outcome := a.executor.Execute(ctx, a.policy.Owner, plan)
	release(outcome.Result == remediation.Unknown)
	return plan, outcome
}

// outdated reports whether the spec has changed since the snapshot, for example by a pause
// request, the NodeHealthCheck is being deleted or gone, the clock is no longer trusted, or the
// spec of a RemediationBudget has changed. It
// asks the cache: a request for each node would cost more than it saves.
func (c *Controller) outdated(planned *snapshot) bool {
	nhc, err := c.nhcs.Get(planned.nhc.Name)
	return err != nil || nhc.UID != planned.nhc.UID || nhc.Generation != planned.nhc.Generation ||
		(nhc.DeletionTimestamp != nil) != (planned.nhc.DeletionTimestamp != nil) || c.ClockUntrusted() != planned.clockUntrusted ||
		c.Budgets.Revision() != planned.budgetRevision
}

// locate returns where CRs of a kind are served. A missing or uncertain permission does
// not keep the controller from ending running remediations (spec 6.7).
func (c *Controller) locate(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := c.remediations.MappingIn(gvk.GroupKind(), gvk.Version)
	if mapping != nil {
		return mapping, nil
	}
	return nil, err
}

// nameAsRead names a CR in the version that its cache will show, also if it was created in another one (spec 6.8).
// Otherwise status would be written once more.
func (c *Controller) nameAsRead(cr *object.CR) {
	if mapping, _ := c.remediations.Mapping(cr.GroupVersionKind().GroupKind()); mapping != nil {
		cr.APIVersion = mapping.GroupVersionKind.GroupVersion().String()
	}
}

// rememberOutcomes keeps what the next sync must know of the outcomes.
func (c *Controller) rememberOutcomes(ctx context.Context, s *snapshot, results []remediation.NodeResult) {
	now, state := c.Clock.Now(), s.state
	var failures failures
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
		state.rememberNew(outcome)
		if cr := outcome.NewCR(); cr != nil {
			c.lastStates.record(s.nhc.Name, cr, false)
		}
		for _, cr := range outcome.Deleted {
			state.deletionRequested[cr.UID] = true
		}
		switch {
		case outcome.Err != nil:
			state.attempts.Failed(keyOf(node), outcome, now)
			failures.add(ctx, node.Name, outcome.Err)
			if apierrors.IsForbidden(outcome.Err) {
				// A missing permission concerns the whole kind. A quota or a webhook does not. The review
				// of the permissions tells which it was.
				c.recheckKinds(result.Plan)
			}
		case outcome.Result == remediation.Recovered: // Until the cache shows it, the same would be done again.
			state.attempts.Failed(keyOf(node), outcome, now)
		case acted:
			state.attempts.Succeeded(keyOf(node))
		}
	}
	failures.log(ctx)
}

// failures are the failures of nodes in one sync. Thousands may fail for one cause, such as
// a quota. They make one error.
type failures struct {
	nodes int
	// first is the failure of the first node by name.
	node  string
	first error
}

func (f *failures) add(ctx context.Context, node string, err error) {
	klog.FromContext(ctx).V(4).Info("Acting on a node failed, retrying", "node", node, "cause", err.Error())
	if f.nodes++; f.nodes == 1 {
		f.node, f.first = node, err
	}
}

func (f *failures) log(ctx context.Context) {
	if f.nodes > 0 {
		klog.FromContext(ctx).Error(f.first, "Acting on nodes failed, retrying", "nodes", f.nodes, "first", f.node)
	}
}

// recheckKinds has the kinds that a plan writes probed again.
func (c *Controller) recheckKinds(plan *remediation.NodePlan) {
	for kind := range kindsOf(plan) {
		c.remediations.Recheck(kind)
	}
}

// kindsOf returns the kinds that a plan writes.
func kindsOf(plan *remediation.NodePlan) sets.Set[schema.GroupKind] {
	kinds := sets.New[schema.GroupKind]()
	for _, action := range plan.Actions {
		switch action := action.(type) {
		case remediation.Create:
			kinds.Insert(action.Object.GroupVersionKind().GroupKind())
		case remediation.Delete:
			kinds.Insert(action.CR.GroupVersionKind().GroupKind())
		case remediation.MarkTimedOut:
			kinds.Insert(action.CR.GroupVersionKind().GroupKind())
		}
	}
	return kinds
}
