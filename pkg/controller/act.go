// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// sideBySide is the number of nodes that one sync acts on at the same time. The
// client's rate limit bounds the whole process.
const sideBySide = 32

// act carries out the plans, what ends before what begins, and returns the outcome
// of each plan in the same order. The failure of one node leaves the others alone.
func (c *Controller) act(ctx context.Context, nhc *v1alpha1.NodeHealthCheck, w *world, memory *memory, plans []remediation.NodePlan) []remediation.Outcome {
	outcomes := make([]remediation.Outcome, len(plans))
	look := &lastLook{c: c, nhc: nhc, world: w, counted: c.clock.Now()}
	executor := &remediation.Executor{
		Client:         c.dynamic,
		Mapping:        c.locate,
		StillUnhealthy: look.stillUnhealthy,
		Kube:           c.kube,
		LeaseNamespace: c.leaseNamespace,
		Now:            c.clock.Now,
		OnWrite: func(resource schema.GroupResource, version string) {
			c.writes.Wrote(nhc.Name, resource, version, c.clock.Now())
		},
	}
	if countActing(plans) > sideBySide {
		c.crowded.Add(1)
		defer c.crowded.Add(-1)
	}
	for _, beginning := range []bool{false, true} {
		var wg sync.WaitGroup
		places := make(chan struct{}, sideBySide)
		for i := range plans {
			if len(plans[i].Actions) == 0 || begins(&plans[i]) != beginning {
				continue
			}
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				if beginning && look.beforehand() {
					outcomes[i].Outdated = true
					return
				}
				outcomes[i] = executor.Execute(ctx, nhc.Name, plans[i])
			})
		}
		wg.Wait()
	}
	c.remember(ctx, nhc.Name, memory, plans, outcomes)
	return outcomes
}

// Crowded reports whether more nodes wait for their turn than can be acted on at the same
// time: then whatever is not urgent is only in the way at the API server.
func (c *Controller) Crowded() bool { return c.crowded.Load() > 0 }

func countActing(plans []remediation.NodePlan) int {
	acting := 0
	for i := range plans {
		if len(plans[i].Actions) > 0 {
			acting++
		}
	}
	return acting
}

// errOutdated ends a sync of which the plans do not hold any more. What it has done is
// done, and the next one starts from there, at once.
var errOutdated = errors.New("the plans are outdated")

func outdated(outcomes []remediation.Outcome) bool {
	return slices.ContainsFunc(outcomes, func(outcome remediation.Outcome) bool { return outcome.Outdated })
}

// locate returns where CRs of a kind are served. A missing permission, or the doubt
// about one, does not keep the controller from what is still permitted: it ends what
// runs (spec 6.7).
func (c *Controller) locate(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := c.remediations.Mapping(gvk)
	if mapping != nil {
		return mapping, nil
	}
	return nil, err
}

// begins tells whether the plan is the beginning of a step.
func begins(plan *remediation.NodePlan) bool {
	return slices.ContainsFunc(plan.Actions, func(action remediation.Action) bool {
		_, create := action.(remediation.Create)
		return create
	})
}

// remember keeps what the next sync must know of this one's outcomes.
func (c *Controller) remember(ctx context.Context, nhc string, memory *memory, plans []remediation.NodePlan, outcomes []remediation.Outcome) {
	now := c.clock.Now()
	var failures failures
	for i := range outcomes {
		outcome, node := &outcomes[i], &plans[i].Node
		if outcome.ReleaseFailed {
			memory.releasing.Insert(node.Name)
		} else if node.Lease == nil || len(plans[i].Actions) > 0 {
			memory.releasing.Delete(node.Name)
		}
		for _, cr := range outcome.Deleted {
			memory.deletionRequested[cr.UID] = true
		}
		if outcome.Err == nil {
			if !outcome.Outdated {
				c.retries.succeeded(nhc, &plans[i])
			}
			continue
		}
		c.retries.failed(nhc, node, outcome, now)
		failures.add(ctx, node.Name, outcome.Err)
		if apierrors.IsForbidden(outcome.Err) {
			// A missing permission is a matter of the whole kind, a quota or a
			// webhook is not. The review of the permissions tells which it was.
			c.recheckKinds(plans[i])
		}
	}
	failures.log(ctx)
}

// failures are those of the nodes in one sync. Thousands may fail for one cause, such as
// a quota, which is one error.
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

// recheckKinds has the kinds that a plan writes looked at again.
func (c *Controller) recheckKinds(plan remediation.NodePlan) {
	kinds := sets.New[schema.GroupVersionKind]()
	for _, action := range plan.Actions {
		switch action := action.(type) {
		case remediation.Create:
			kinds.Insert(action.Object.GroupVersionKind())
		case remediation.Delete:
			kinds.Insert(action.CR.GroupVersionKind())
		case remediation.MarkTimedOut:
			kinds.Insert(action.CR.GroupVersionKind())
		}
	}
	for kind := range kinds {
		c.remediations.Recheck(kind)
	}
}

// await records what stands in the way of nodes, so that its end wakes the
// NodeHealthCheck. It returns when to look again without that: soon, if something has
// gone in the meantime, when nothing was registered yet, and zero otherwise.
func (c *Controller) await(nhc string, plans []remediation.NodePlan, outcomes []remediation.Outcome) (recheck time.Time) {
	what := sets.New[awaited]()
	for i := range plans {
		what.Insert(awaitedBy(&plans[i], &outcomes[i])...)
	}
	c.waiting.replace(nhc, what)
	now := c.clock.Now()
	for i := range plans {
		if c.hasEnded(nhc, &plans[i], now) {
			recheck = health.Earliest(recheck, now.Add(raceRetry))
		}
		if lost := outcomes[i].LeaseLost || outcomes[i].ReleaseFailed || outcomes[i].StillDeleting; lost && outcomes[i].Err == nil {
			recheck = health.Earliest(recheck, now.Add(lostRaceRetry))
		}
		if cr := outcomes[i].Blocker; cr != nil && c.isGone(cr) {
			// Or not in the cache yet: that was a live read.
			recheck = health.Earliest(recheck, now.Add(lostRaceRetry))
		}
	}
	return recheck
}

// lostRaceRetry is how long it may take until a cache shows what another client has done.
const lostRaceRetry = time.Second

// awaitedBy returns what stands in the way of a node.
func awaitedBy(plan *remediation.NodePlan, outcome *remediation.Outcome) []awaited {
	var what []awaited
	lease := awaitedLease(remediation.LeaseName(plan.Node.Name))
	switch plan.Refusal {
	case remediation.RefusedControlPlaneBusy:
		what = append(what, controlPlanePlace)
	case remediation.RefusedEtcdQuorum:
		what = append(what, controlPlaneNodes)
	case remediation.RefusedLeaseTaken:
		what = append(what, lease)
	default: // Ends with an event of its own, or with time.
	}
	if outcome.LeaseLost {
		what = append(what, lease)
	}
	for _, cr := range []*remediation.CR{plan.Blocker, outcome.Blocker} {
		if cr != nil {
			what = append(what, awaitedCR(cr))
		}
	}
	if plan.Node.OthersRemediate {
		what = append(what, awaitedCRsOf(plan.Node.Name)) // Then the confirmation is removed.
	}
	return what
}

// hasEnded reports whether what stands in the way of a node has gone since it was planned
// for.
func (c *Controller) hasEnded(nhc string, plan *remediation.NodePlan, now time.Time) bool {
	if plan.Blocker != nil && c.isGone(plan.Blocker) {
		return true
	}
	if plan.Refusal == remediation.RefusedControlPlaneBusy && c.placeIsFree(plan.Node.Name, now) {
		return true
	}
	if plan.Node.OthersRemediate && !c.othersRemediate(plan.Node.Name) {
		return true
	}
	if lease := plan.Node.Lease; lease != nil && plan.Refusal == remediation.RefusedLeaseTaken {
		current, exists, err := c.leases(nhc).Get(lease)
		return err != nil || !exists || current != any(lease)
	}
	return false
}

func (c *Controller) isGone(cr *remediation.CR) bool {
	indexer, err := c.remediations.Cache(cr.GroupVersionKind())
	if err != nil {
		return c.remediations.Gone(cr.GroupVersionKind())
	}
	_, exists, err := indexer.GetByKey(cache.NewObjectName(cr.Namespace, cr.Name).String())
	return err == nil && !exists
}
