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
	"github.com/nhc-controller/nhc-controller/pkg/limits"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// topic is something whose change a NodeHealthCheck waits for.
type topic string

// controlPlaneTopic is the slot for the one control plane node that may be under
// remediation.
const controlPlaneTopic topic = "control plane slot"

// controlPlaneNodesTopic are all control plane nodes, which may have a quorum without one.
const controlPlaneNodesTopic topic = "control plane nodes"

func crTopic(cr *object.CR) topic {
	return topic("cr/" + cr.GroupVersionKind().GroupKind().String() + "/" + cr.Namespace + "/" + cr.Name)
}

// nodeCRsTopic is about all CRs for a node, whichever NodeHealthCheck owns them.
func nodeCRsTopic(node string) topic { return topic("crs of node/" + node) }

func leaseTopic(name string) topic { return topic("lease/" + name) }

// waiters are the NodeHealthChecks that wait for something, by what they wait for. The
// zero value is ready to use, from any goroutine.
type waiters struct {
	mu      sync.Mutex
	byTopic map[topic]sets.Set[string]
}

// subscribe records what a NodeHealthCheck waits for, instead of what it waited for
// before. The caller looks once more afterwards: what has changed until then is missed.
func (w *waiters) subscribe(nhc string, topics sets.Set[topic]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, names := range w.byTopic {
		if !topics.Has(id) && names.Delete(nhc).Len() == 0 {
			delete(w.byTopic, id)
		}
	}
	for id := range topics {
		if w.byTopic == nil {
			w.byTopic = map[topic]sets.Set[string]{}
		}
		if w.byTopic[id] == nil {
			w.byTopic[id] = sets.New[string]()
		}
		w.byTopic[id].Insert(nhc)
	}
}

// unsubscribe forgets a NodeHealthCheck.
func (w *waiters) unsubscribe(nhc string) { w.subscribe(nhc, nil) }

// of returns the NodeHealthChecks that wait for a topic.
func (w *waiters) of(id topic) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byTopic[id].UnsortedList()
}

// How long a sync waits before it is repeated because something has changed while it ran, and
// because a cache does not show yet what a live read has shown. It must not keep spinning.
const (
	raceRetry     = 100 * time.Millisecond
	lostRaceRetry = time.Second
)

// subscribe records what keeps nodes waiting, so that its end wakes the NodeHealthCheck. It
// returns when to look again without that: soon, if something has gone in the meantime, when
// nothing was registered yet, and zero otherwise.
func (c *Controller) subscribe(s *snapshot, results []remediation.NodeResult) (recheck time.Time) {
	what := sets.New[topic]()
	for _, result := range results {
		what.Insert(awaitedBy(result)...)
	}
	c.waiters.subscribe(s.nhc.Name, what)
	now := c.clock.Now()
	for _, result := range results {
		if c.hasEnded(result.Plan) {
			recheck = health.Earliest(recheck, now.Add(raceRetry))
		}
		if c.lostRace(s, result) {
			recheck = health.Earliest(recheck, now.Add(lostRaceRetry))
		}
	}
	if what.Has(controlPlaneTopic) && c.slotChanged(s, results) {
		recheck = health.Earliest(recheck, now.Add(raceRetry))
	}
	return recheck
}

// awaitedBy returns what keeps a node waiting, and of a dry run what may come to do so.
func awaitedBy(result remediation.NodeResult) []topic {
	var what []topic
	plan, outcome := result.Plan, result.Outcome
	reason := plan.Refusal()
	switch {
	case reason == v1alpha1.DecidedControlPlaneBusy:
		what = append(what, controlPlaneTopic)
	case reason == v1alpha1.DecidedEtcdQuorum:
		what = append(what, controlPlaneNodesTopic)
	case reason == v1alpha1.DecidedLeaseTaken || outcome.Result == remediation.LeaseLost:
		what = append(what, leaseTopic(object.LeaseName(plan.Node.Name)))
	case reason == v1alpha1.DecidedDryRun:
		what = append(what, leaseTopic(object.LeaseName(plan.Node.Name)), nodeCRsTopic(plan.Node.Name))
		if takesSlot := plan.Candidate && plan.Node.ControlPlane; takesSlot {
			what = append(what, controlPlaneTopic, controlPlaneNodesTopic)
		}
	case reason == v1alpha1.DecidedBudgetExhausted:
		// Asked after the budget. While they refuse the node, too, no budget keeps it waiting (spec B5.2).
		what = append(what, leaseTopic(object.LeaseName(plan.Node.Name)), nodeCRsTopic(plan.Node.Name))
	}
	for _, cr := range []*object.CR{plan.Blocker, outcome.Blocker()} {
		if cr != nil {
			what = append(what, crTopic(cr))
		}
	}
	if plan.Node.OthersRemediate {
		what = append(what, nodeCRsTopic(plan.Node.Name), leaseTopic(object.LeaseName(plan.Node.Name))) // Then the confirmation is removed.
	}
	return what
}

// hasEnded reports whether what keeps a node waiting has gone since it was planned for.
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
		return result.Plan.Refusal() == v1alpha1.DecidedControlPlaneBusy && !s.limits.ControlPlane.Busy(result.Plan.Node.Name)
	}
}

// slotChanged reports whether the caches show the control plane slot as free for a node that waits
// for it, and for which it was not free in the snapshot, or as taken for a node of a dry run.
func (c *Controller) slotChanged(s *snapshot, results []remediation.NodeResult) bool {
	remediated := c.controlPlaneRemediations()
	for _, result := range results {
		node, reason := result.Plan.Node, result.Plan.Refusal()
		before := s.limits.ControlPlane.Busy(node.Name)
		now := func() bool {
			return remediated.Busy(node.Name) || len(c.machineHealthChecks.ControlPlaneOccupants(limits.Member{Node: node.Name})) > 0
		}
		switch {
		case reason == v1alpha1.DecidedControlPlaneBusy && before && !now(),
			reason == v1alpha1.DecidedDryRun && result.Plan.Candidate && node.ControlPlane && !before && now():
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
