// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// waiters are the NodeHealthChecks that wait for a CR or a lease of others, or for the control plane slot, and those
// that are being synced: a sync may miss what changes after it has looked. They are few, and any change of a CR, a lease
// or the slot wakes them all (spec 21.1). The zero value is ready to use, from any goroutine.
type waiters struct {
	mu    sync.Mutex
	names sets.Set[string]
}

// set records whether a NodeHealthCheck waits.
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

// lostRaceRetry is when to look again after a lost race. It is less than 12.4 allows once the slot is free.
const lostRaceRetry = time.Second

// recheckLostRaces returns when to look again because another client was faster, in a way that no cache has shown yet;
// zero if none was.
func (c *Controller) recheckLostRaces(s *snapshot, results []remediation.NodeResult) (recheck time.Time) {
	if slices.ContainsFunc(results, s.lostRace) {
		return c.Clock.Now().Add(lostRaceRetry)
	}
	return time.Time{}
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

// lostRace reports whether another client was faster. What blocks an outcome was read live.
func (s *snapshot) lostRace(result remediation.NodeResult) bool {
	outcome := result.Outcome
	switch outcome.Result {
	case remediation.LeaseLost, remediation.StillDeleting, remediation.Relapsed:
		return true
	default:
		return outcome.ReleaseFailed && outcome.Err == nil || outcome.Blocker() != nil ||
			result.Plan.Refusal() == v1alpha1.DecidedControlPlaneBusy && !s.controlPlane.Busy(result.Plan.Node.Name)
	}
}
