// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
)

// waiters are the NodeHealthChecks that wait for a CR or a lease of others, or for the control plane slot. They
// are few, and any change of a CR, a lease or the slot wakes them all (spec 21.1). The zero value is ready to
// use, from any goroutine.
type waiters struct {
	mu    sync.Mutex
	names sets.Set[string]
}

// set records whether a NodeHealthCheck waits. The caller has to look once more afterwards, because it misses
// earlier changes.
func (w *waiters) set(nhc string, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names = sets.New[string]()
	}
	if waits {
		w.names.Insert(nhc)
	} else {
		w.names.Delete(nhc)
	}
}

// all returns the NodeHealthChecks that wait.
func (w *waiters) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names.UnsortedList()
}

const (
	raceRetry     = 100 * time.Millisecond
	lostRaceRetry = time.Second
)

// subscribe records whether a CR, a lease or the slot of others keeps a node waiting, so that its end
// wakes the NodeHealthCheck. It returns the time of the next look: soon if something has gone before the
// subscription, zero otherwise.
func (c *Controller) subscribe(s *snapshot, results []remediation.NodeResult) (recheck time.Time) {
	c.waiters.set(s.nhc.Name, slices.ContainsFunc(results, waits))
	now := c.clock.Now()
	for _, result := range results {
		if c.hasEnded(result.Plan) {
			recheck = health.Earliest(recheck, now.Add(raceRetry))
		}
		if c.lostRace(s, result) {
			recheck = health.Earliest(recheck, now.Add(lostRaceRetry))
		}
	}
	if c.slotChanged(s, results) {
		recheck = health.Earliest(recheck, now.Add(raceRetry))
	}
	return recheck
}

// waits reports whether a CR, a lease or the slot of others keeps a node waiting, or may do so later in
// a dry run.
func waits(result remediation.NodeResult) bool {
	plan, outcome := result.Plan, result.Outcome
	if outcome.Result == remediation.LeaseLost || outcome.Blocker() != nil || plan.Blocker != nil {
		return true
	}
	others := []v1alpha1.DecisionReason{
		v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum, v1alpha1.DecidedLeaseTaken, v1alpha1.DecidedDryRun,
		v1alpha1.DecidedBudgetExhausted, // Asked after the budget. While they refuse the node, too, no budget keeps it waiting (spec B5.2).
	}
	if slices.Contains(others, plan.Refusal()) {
		return true
	}
	return plan.Node.OthersRemediate // Then the confirmation is removed.
}

// hasEnded reports whether the cause of the wait has gone since the plan was made.
func (c *Controller) hasEnded(plan *remediation.NodePlan) bool {
	if plan.Blocker != nil && c.isGone(plan.Blocker) {
		return true
	}
	if plan.Node.OthersRemediate && !c.othersRemediate(plan.Node.Name) {
		return true
	}
	exhausted := plan.Refusal() == v1alpha1.DecidedBudgetExhausted
	if exhausted && slices.ContainsFunc(plan.Node.Foreign, c.isGone) {
		return true
	}
	if lease := plan.Node.Lease; lease != nil && (exhausted || plan.Refusal() == v1alpha1.DecidedLeaseTaken) {
		current, exists, err := c.leaseStore.Get(lease)
		return err != nil || !exists || current != any(lease)
	}
	return false
}

// lostRace reports whether another client was faster, in a way that no cache has shown yet.
func (c *Controller) lostRace(s *snapshot, result remediation.NodeResult) bool {
	outcome := result.Outcome
	switch {
	case outcome.Result == remediation.LeaseLost, outcome.Result == remediation.StillDeleting, outcome.Result == remediation.Relapsed, outcome.ReleaseFailed && outcome.Err == nil:
		return true
	case outcome.Blocker() != nil:
		return c.isGone(outcome.Blocker()) // Or not in the cache yet: that was a live read.
	default:
		return result.Plan.Refusal() == v1alpha1.DecidedControlPlaneBusy && !s.controlPlane.Busy(result.Plan.Node.Name)
	}
}

// slotChanged reports whether the caches show another state of the control plane slot than the
// snapshot: free for a node that waits for it, or taken for a node of a dry run.
func (c *Controller) slotChanged(s *snapshot, results []remediation.NodeResult) bool {
	remediated := sync.OnceValue(c.controlPlaneRemediations)
	for _, result := range results {
		node, reason := result.Plan.Node, result.Plan.Refusal()
		waits, dryRun := reason == v1alpha1.DecidedControlPlaneBusy, reason == v1alpha1.DecidedDryRun && result.Plan.Candidate && node.ControlPlane
		if (!waits && !dryRun) || s.controlPlane.Busy(node.Name) != waits {
			continue
		}
		now := remediated()
		if busy := now.Busy(node.Name) || len(c.machineHealthChecks.ControlPlaneSlotHolders(slot.Member{Node: node.Name})) > 0; busy != waits {
			return true
		}
	}
	return false
}

// isGone reports whether the cache does not have a CR.
func (c *Controller) isGone(cr *object.CR) bool {
	indexer, err := c.remediations.Cache(cr.GroupVersionKind().GroupKind())
	if err != nil {
		return c.remediations.Gone(cr.GroupVersionKind().GroupKind())
	}
	_, exists, err := indexer.GetByKey(cache.NewObjectName(cr.Namespace, cr.Name).String())
	return err == nil && !exists
}
