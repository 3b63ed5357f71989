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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
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
		OnWrite:        func(resource schema.GroupResource, version string) { c.writes.Wrote(nhc.Name, resource, version) },
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

// Crowded tells whether more nodes wait for their turn than can be acted on at the same
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
	for i := range outcomes {
		outcome, node := &outcomes[i], &plans[i].Node
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
		utilruntime.HandleErrorWithContext(ctx, outcome.Err, "Acting on a node failed, retrying", "node", node.Name)
		if apierrors.IsForbidden(outcome.Err) {
			// A missing permission is a matter of the whole kind, a quota or a
			// webhook is not. The review of the permissions tells which it was.
			c.recheckKinds(plans[i])
		}
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
// NodeHealthCheck. It returns when to look again without that: now, if something has
// gone in the meantime, when nobody was listening yet, and zero otherwise.
func (c *Controller) await(nhc string, plans []remediation.NodePlan, outcomes []remediation.Outcome, now time.Time) (recheck time.Time) {
	what := sets.New[awaited]()
	for i := range plans {
		switch plans[i].Refusal {
		case remediation.RefusedControlPlaneBusy:
			what.Insert(controlPlanePlace)
		case remediation.RefusedLeaseTaken:
			what.Insert(awaitedLease(remediation.LeaseName(plans[i].Node.Name)))
		default: // Ends with an event of its own, or with time.
		}
		for _, cr := range []*remediation.CR{plans[i].Blocker, outcomes[i].Blocker} {
			if cr != nil {
				what.Insert(awaitedCR(cr))
			}
		}
	}
	c.waiting.replace(nhc, what)
	gone := false
	for i := range plans {
		if cr := plans[i].Blocker; cr != nil && c.isGone(cr) {
			gone = true
		}
		if cr := outcomes[i].Blocker; cr != nil && c.isGone(cr) {
			// Or not in the cache yet: that was a live read.
			recheck = now.Add(time.Second)
		}
		if plans[i].Refusal == remediation.RefusedControlPlaneBusy && c.placeIsFree(plans[i].Node.Name, now) {
			gone = true
		}
		if lease := plans[i].Node.Lease; lease != nil && plans[i].Refusal == remediation.RefusedLeaseTaken {
			current, exists, err := c.leaseStore.Get(lease)
			gone = gone || err != nil || !exists || current != any(lease)
		}
	}
	if gone {
		return now
	}
	return recheck
}

func (c *Controller) isGone(cr *remediation.CR) bool {
	indexer, err := c.remediations.Cache(cr.GroupVersionKind())
	if err != nil {
		return false
	}
	_, exists, err := indexer.GetByKey(cache.NewObjectName(cr.Namespace, cr.Name).String())
	return err == nil && !exists
}
