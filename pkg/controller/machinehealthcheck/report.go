// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// report writes the status, and then reports the changes by events, metrics and logs. It returns
// the instant at which to look again.
func (c *Controller) report(ctx context.Context, s *snapshot, results []machinehealth.TargetResult, now time.Time) (time.Time, error) {
	before := s.state.entries
	entries := s.policy.NewEntries(results, before, now)
	remediations, recheck := c.history(s, results, entries, now)
	s.state.history.Store(&remediations) // Also if the write fails: it reports what was done.
	s.state.machines = s.machines
	recheck = health.Earliest(recheck, c.noteDeletions(s))
	c.record(s.check, s.policy.Requests(results))
	c.metrics.countBegun(keyOf(s.check), results)
	status := s.policy.NewStatus(&machinehealth.StatusInput{
		Check: s.check, Entries: entries, History: remediations, Kinds: s.kinds, Overlaps: s.overlaps, Now: now,
	})
	if _, err := c.writeStatus(ctx, s.written, status); err != nil {
		return time.Time{}, err
	}
	c.metrics.countFinished(keyOf(s.check), s.state.reported, remediations)
	s.state.reported = remediations
	changes := s.policy.Events(results, before, entries)
	changes = append(changes, machinehealth.UnavailableEvents(s.policy.Unavailable, &s.check.Status)...)
	c.record(s.check, changes)
	logEvents(ctx, changes)
	logDecisions(ctx, before, entries)
	s.state.entries = entries
	c.metrics.update(s, entries)
	return health.Earliest(recheck, s.next(results, now)), nil
}

// reportUnobserved shows why there is no snapshot, if users can do something about it. It returns the error that ends
// the sync.
func (c *Controller) reportUnobserved(ctx context.Context, check *v1beta1.MachineHealthCheck, err error, now time.Time) error {
	unavailable, is := errors.AsType[*unavailableError](err)
	if !is {
		return err
	}
	failed := c.reportUnavailable(ctx, check, unavailable.condition, now)
	if _, denied := errors.AsType[*watches.ForbiddenError](err); denied {
		return failed // The watch calls when that has changed.
	}
	return cmp.Or(failed, err)
}

// reportUnavailable shows why nothing is known of the Machines (spec M7.5). Running remediations go on, and the rest
// of the status stays as it was.
func (c *Controller) reportUnavailable(ctx context.Context, check *v1beta1.MachineHealthCheck, unavailable *v1beta1.Condition, now time.Time) error {
	if _, err := c.writeStatus(ctx, check, machinehealth.Amend(unavailable, &machinehealth.StatusInput{Check: check, Now: now})); err != nil {
		return err
	}
	changes := machinehealth.UnavailableEvents(unavailable, &check.Status)
	c.record(check, changes)
	logEvents(ctx, changes)
	c.metrics.shortCircuit.With(labelsOf(keyOf(check))).Set(1)
	return nil
}

// history returns the remediations after these results, and the next instant at which time alone changes
// one of them.
func (c *Controller) history(s *snapshot, results []machinehealth.TargetResult, entries machinehealth.Entries, now time.Time) ([]v1beta1.Remediation, time.Time) {
	history := machinehealth.History{
		Before: *s.state.history.Load(), Results: results, Entries: entries, Machines: s.machines,
		Known: s.state.known, First: s.state.machines == nil, Unsure: sets.KeySet(s.state.unsure),
		Healthy: s.healthy, NodeExists: func(name string) bool { return c.NodeCache.Get(name) != nil }, Now: now,
	}
	return history.Update()
}

// announce writes the history before Machines are deleted. If the process dies before it can report the
// deletions, only status shows them (spec P8). Later deletions of the same sync need no further write. A
// served CRD without the history has none to lose. Control plane Machines are announced one by one once
// they have the slot, because every announcement of a waiting Machine would be a write (spec P3).
func (c *Controller) announce(ctx context.Context, s *snapshot, plans []machinehealth.Plan, controlPlane *machinehealth.Plan) error {
	results, deletes := make([]machinehealth.TargetResult, 0, len(plans)), false
	remediating := func(plan *machinehealth.Plan) bool { // Its deletion would close that entry, also if it is refused.
		return slices.ContainsFunc(*s.state.history.Load(), func(entry v1beta1.Remediation) bool {
			return entry.Machine == plan.Target.Machine.Name && entry.Started != nil && entry.Finished == nil && entry.Closed == nil
		})
	}
	for i := range plans {
		plan, outcome := &plans[i], &remediation.Outcome{}
		if plan.Creates() && plan.Type == v1beta1.RemediationMachineDeletion && (plan == controlPlane || !takesSlot(plan)) && !remediating(plan) {
			outcome.Result, deletes = remediation.Requested, true // If that does not come true, the next history says so.
		}
		results = append(results, machinehealth.TargetResult{Plan: plan, Outcome: outcome})
	}
	if c.dropped.Load() || !deletes {
		return nil
	}
	now, status := c.Clock.Now(), s.written.Status
	remediations, _ := c.history(s, results, s.policy.NewEntries(results, s.state.entries, now), now)
	s.state.history.Store(&remediations)
	status.RemediationHistory = machinehealth.Listed(remediations)
	written, err := c.writeStatus(ctx, s.written, status)
	if err != nil {
		return fmt.Errorf("announcing the deletion of a Machine: %w", err)
	}
	s.written = written
	return nil
}

// next returns the next instant at which time alone changes a verdict or a plan, or at which another
// attempt is due. It is now if plans were left to the next batch.
func (s *snapshot) next(results []machinehealth.TargetResult, now time.Time) time.Time {
	next := health.Earliest(s.recheck, s.policy.Summary.Recheck)
	names := sets.New[string]()
	for _, result := range results {
		names.Insert(result.Plan.Target.Machine.Name)
		next = health.Earliest(next, result.Plan.Recheck)
		switch result.Outcome.Result {
		case remediation.Deferred:
			next = health.Earliest(next, now)
		case remediation.LeaseLost, remediation.StillDeleting, remediation.Blocked, remediation.Recovered, remediation.Relapsed, remediation.Refused:
			next = health.Earliest(next, now.Add(lostRaceRetry)) // The caches may not show yet what was seen live.
		default: // A write wakes the sync, and a failure has its next attempt.
		}
	}
	return health.Earliest(next, s.state.attempts.Recheck(names, now))
}

// lostRaceRetry is the time until the next sync when a live read has shown something that the cache
// does not show yet.
const lostRaceRetry = time.Second

// strip removes our fields from a status.
func strip(status *v1beta1.MachineHealthCheckStatus) {
	status.ObservedGeneration, status.IgnoredMachines, status.UnhealthyMachines = 0, nil, nil
	status.RemediationHistory, status.RemediationKinds = nil, nil
}

// hasOurs reports whether a status has any of our fields.
func hasOurs(status *v1beta1.MachineHealthCheckStatus) bool {
	return status.ObservedGeneration != 0 || status.IgnoredMachines != nil || len(status.UnhealthyMachines) > 0 ||
		len(status.RemediationHistory) > 0 || len(status.RemediationKinds) > 0
}

// writeStatus replaces the whole status, unless it is unchanged. The write is bound to the
// resourceVersion that it was computed from. It returns the MachineHealthCheck after the write.
func (c *Controller) writeStatus(ctx context.Context, check *v1beta1.MachineHealthCheck, status v1beta1.MachineHealthCheckStatus) (*v1beta1.MachineHealthCheck, error) {
	if c.dropped.Load() {
		strip(&status)
	}
	if equality.Semantic.DeepEqual(check.Status, status) {
		return check, nil
	}
	updated := *check
	updated.Status = status
	written, err := c.client.MachineV1beta1().MachineHealthChecks(check.Namespace).UpdateStatus(ctx, &updated, metav1.UpdateOptions{FieldManager: execute.FieldManager})
	if err != nil {
		return nil, fmt.Errorf("updating status: %w", err)
	}
	if hasOurs(&status) && !hasOurs(&written.Status) {
		c.dropped.Store(true)
	}
	c.Writes.Wrote(keyOf(check).String(), checkResource, written.ResourceVersion, c.Clock.Now())
	return written, nil
}

// logDecisions logs the decisions that have changed.
func logDecisions(ctx context.Context, before, after machinehealth.Entries) {
	logger := klog.FromContext(ctx).V(2)
	if !logger.Enabled() {
		return
	}
	for name, entry := range after {
		var old *v1alpha1.Decision
		if before[name] != nil {
			old = &before[name].Decision
		}
		reconcile.LogDecision(logger, old, &entry.Decision, "machine", name, "node", entry.Node)
	}
	for name, old := range before {
		if after[name] == nil {
			reconcile.LogDecision(logger, &old.Decision, nil, "machine", name)
		}
	}
}

// logEvents logs the events, so that the log is complete without them.
func logEvents(ctx context.Context, changes []machinehealth.Event) {
	for i := range changes {
		machine := ""
		if changes[i].Machine != nil {
			machine = changes[i].Machine.Name
		}
		klog.FromContext(ctx).Info("MachineHealthCheck changed", "machine", machine, "reason", changes[i].Reason, "note", changes[i].Note)
	}
}

// record records events of a MachineHealthCheck, each on its object, unless the controller has become inactive
// (spec M4.2). The references carry no resourceVersion: with one, repetitions would count as different events.
func (c *Controller) record(check *v1beta1.MachineHealthCheck, all []machinehealth.Event) {
	if !c.Active() {
		return
	}
	onCheck := &corev1.ObjectReference{
		APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: v1beta1.Kind, Namespace: check.Namespace, Name: check.Name, UID: check.UID,
	}
	for i := range all {
		e := &all[i]
		if e.Machine == nil {
			c.Recorder.Eventf(onCheck, nil, e.Type, e.Reason, e.Action, "%s", e.Note)
			continue
		}
		onMachine := &corev1.ObjectReference{
			APIVersion: e.Machine.APIVersion, Kind: e.Machine.Kind, Namespace: e.Machine.Namespace, Name: e.Machine.Name, UID: e.Machine.UID,
		}
		c.Recorder.Eventf(onMachine, onCheck, e.Type, e.Reason, e.Action, "%s", e.Note)
	}
}
