// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/attempts"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// checkState is what the process remembers of one MachineHealthCheck between syncs. It may be lost
// at any time: then an event or a request may be repeated. A MachineHealthCheck is synced by one
// worker at a time, so it needs no lock.
type checkState struct {
	uid types.UID
	// deletionRequested holds the Machines and CRs whose deletion was requested, until the caches
	// show it.
	deletionRequested map[types.UID]bool
	// entries are those of the last report: status may have no room for them, or an API that does not
	// know them. Likewise reported, of the history. history has what was done since, too.
	entries           machinehealth.Entries
	history, reported []v1beta1.Remediation
	// unsure are the Machines whose deletion may have been requested: the answer was lost.
	unsure sets.Set[string]
	// allowed is whether the threshold allowed remediations at the last sync, nil before the first one.
	allowed *bool
	// own are the CRs of the last sync. Handlers read them, too, so the set is replaced, never changed.
	own atomic.Pointer[sets.Set[types.UID]]
	// machines are those of the last sync, by name, nil before the first one.
	machines map[string]*machinehealth.Machine
	// notHealthy are the names of the targets that were judged unhealthy, or soon, at the last sync.
	notHealthy sets.Set[string]
	attempts   attempts.Attempts[string]
	// old are the CRs that were reported as older than 48 hours.
	old map[types.UID]bool
}

// known reports whether a Machine was there at the last sync of this process.
func (s *checkState) known(machine string) bool { return s.machines[machine] != nil }

// stateOf returns the state of a MachineHealthCheck, which begins with what its status says.
func (c *Controller) stateOf(check *v1beta1.MachineHealthCheck) *checkState {
	if found, ok := c.states.Load(keyOf(check)); ok && found.(*checkState).uid == check.UID {
		return found.(*checkState)
	}
	state := &checkState{
		uid: check.UID, deletionRequested: map[types.UID]bool{}, attempts: attempts.New[string](),
		entries: machinehealth.EntriesOf(&check.Status), history: check.Status.RemediationHistory, reported: check.Status.RemediationHistory,
		unsure: sets.New[string](),
	}
	c.states.Store(keyOf(check), state)
	return state
}

// ownedLast returns the CRs that a MachineHealthCheck had at the last sync of this process. Garbage collection
// may have removed their references to it since.
func (c *Controller) ownedLast(key cache.ObjectName) sets.Set[types.UID] {
	if state, ok := c.states.Load(key); ok {
		if own := state.(*checkState).own.Load(); own != nil {
			return *own
		}
	}
	return nil
}

// checksOf returns the MachineHealthChecks that a CR belongs to, also those that are gone: by its references or, where
// garbage collection has removed them, those that had it at the last sync of this process.
func (c *Controller) checksOf(cr *object.CR) []cache.ObjectName {
	owners := ownersOf(cr)
	if len(owners) > 0 {
		return owners
	}
	c.states.Range(func(key, _ any) bool {
		if name := key.(cache.ObjectName); c.ownedLast(name).Has(cr.UID) {
			owners = append(owners, name)
		}
		return true
	})
	return owners
}

// pruneRequests forgets the requests to delete Machines and CRs that the caches show.
func (s *checkState) pruneRequests(machines map[string]*machinehealth.Machine, crs map[string]machineCRs) {
	if len(s.deletionRequested) == 0 {
		return
	}
	pending := sets.New[types.UID]()
	for _, machine := range machines {
		if !machine.Deleting() {
			pending.Insert(machine.UID)
		}
	}
	for _, of := range crs {
		for _, cr := range of.own {
			if !cr.Deleting() {
				pending.Insert(cr.UID)
			}
		}
	}
	for uid := range s.deletionRequested {
		if !pending.Has(uid) {
			delete(s.deletionRequested, uid)
		}
	}
}

// sync brings one MachineHealthCheck up to date. It returns the instant at which to look again even
// if nothing changes; zero means never.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (recheck time.Time, err error) {
	now := c.Clock.Now()
	check, err := c.caughtUp(key)
	switch {
	case err != nil:
		return time.Time{}, err
	case check == nil:
		return c.end(ctx, key)
	case !c.Active():
		c.Budgets.Forget(askerOf(key)) // It waits for nothing.
		c.metrics.forget(key)          // Another controller knows better.
		return time.Time{}, nil        // What is running stays as it is, and nothing is written (spec M4.2).
	}
	defer func() { c.metrics.measure(key, c.Clock.Since(now)) }()
	if err := c.endFormer(ctx, check); err != nil {
		return time.Time{}, err
	}
	s, err := c.snapshot(ctx, check, now)
	if forbidden, denied := errors.AsType[*watches.ForbiddenError](err); denied {
		unavailable := machinehealth.MachinesForbidden(forbidden.Verb, forbidden.Resource)
		return time.Time{}, c.reportUnavailable(ctx, check, unavailable, now) // The watch calls when that has changed.
	}
	if unread, is := errors.AsType[*unreadError](err); is {
		unavailable := machinehealth.MachinesUnreadable(unread.kind, unread.cause)
		if failed := c.reportUnavailable(ctx, check, unavailable, now); failed != nil {
			return time.Time{}, failed
		}
		return time.Time{}, err
	}
	if err != nil {
		return time.Time{}, err
	}
	plans := machinehealth.NewPlans(&s.policy, s.targets, now)
	c.limit(s, plans, now)
	c.noteVerdicts(s)
	reserved := c.askBudgets(s, plans, now)
	summary := &s.policy.Summary
	klog.FromContext(ctx).V(4).Info("Syncing", "expected", summary.Expected, "healthy", summary.Healthy, "limit", summary.Limit, "ignored", summary.Ignored, "targets", len(plans))
	for i := range plans {
		logPlan(ctx, &plans[i])
	}
	if err := c.announce(ctx, s, plans, nil); err != nil {
		c.endReservations(s, reserved, nil)
		return time.Time{}, err
	}
	c.releaseHeld(ctx, s)
	results := c.act(ctx, s, plans)
	c.endReservations(s, reserved, results)
	if err := ctx.Err(); err != nil {
		return time.Time{}, fmt.Errorf("before the report: %w", err)
	}
	return c.report(ctx, s, results, now)
}

// logPlan logs what was decided about a target.
func logPlan(ctx context.Context, plan *machinehealth.Plan) {
	logger := klog.FromContext(ctx).V(5)
	if !logger.Enabled() || (plan.Reason == "" && len(plan.Actions) == 0) {
		return
	}
	logger.Info("Planned", "machine", plan.Target.Machine.Name, "state", plan.Target.Verdict.State.String(), "trigger", plan.Target.Verdict.Trigger,
		"reason", plan.Reason, "actions", remediation.ActionNames(plan.Actions), "until", plan.Until)
}

// slotRecheck is how often a control plane Machine that waits for the slot is looked at again: an
// object of any kind may free the slot.
const slotRecheck = time.Second

// limit withholds the remediation of control plane Machines for which the caches show that the slot
// is taken.
func (c *Controller) limit(s *snapshot, plans []machinehealth.Plan, now time.Time) {
	for i := range plans {
		plan := &plans[i]
		if !takesSlot(plan) {
			continue
		}
		if busy := c.busy(plan.Target.Machine); busy != nil {
			s.policy.Withhold(plan, busy, now)
			plan.Recheck = health.Earliest(plan.Recheck, now.Add(slotRecheck))
		}
	}
}

// takesSlot reports whether a plan begins the remediation of a control plane Machine.
func takesSlot(plan *machinehealth.Plan) bool { return plan.Begins() && plan.Target.ControlPlane }
