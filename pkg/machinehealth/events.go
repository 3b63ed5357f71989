// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Reasons of the events of MachineHealthChecks (spec M17.1).
const (
	reasonDetectedUnhealthy        = "DetectedUnhealthy"
	reasonMachineDeleted           = "MachineDeleted"
	reasonMachineDeletionFailed    = "MachineDeletionFailed"
	reasonSkippedNoController      = "SkippedNoController"
	reasonExternalAnnotationAdded  = "ExternalAnnotationAdded"
	reasonExternalAnnotationFailed = "ExternalAnnotationFailed"
	reasonRemediationRestricted    = "RemediationRestricted"
	reasonLeaseTakenOver           = "LeaseTakenOver"
	reasonRemediationCreated       = "RemediationCreated"
	reasonRemediationRemoved       = "RemediationRemoved"
	reasonRemediationSkipped       = "RemediationSkipped"
	reasonRemediationOverdue       = "RemediationOverdue"
)

// prefix begins the notes of events that OpenShift's controller does not have (spec 19.1).
const prefix = "[remediation] "

// Event is a transition that is reported.
type Event struct {
	// Machine is the subject of the event, nil if that is the MachineHealthCheck.
	Machine *Machine
	// Type, Reason and Note are those of the event. Action tells events apart that differ only in
	// the note.
	Type, Reason, Action, Note string
}

// Events returns the events for changes since the earlier entries, except those of
// Requests.
func (p *Policy) Events(results []TargetResult, before, after Entries) []Event {
	r := reporter{Policy: p, before: before, after: after, skipped: map[v1alpha1.DecisionReason]bool{}}
	for _, result := range results {
		r.detected(result)
		r.failed(result)
		r.refused(result)
		r.overdue(result)
	}
	r.restricted(results)
	return r.events
}

// Requests returns the events for accepted requests. They are reported even if status could not
// be written, because no later sync knows of them.
func (p *Policy) Requests(results []TargetResult) []Event {
	r := reporter{Policy: p}
	for _, result := range results {
		r.tookLease(result)
		r.begun(result)
		r.removed(result)
	}
	return r.events
}

type reporter struct {
	*Policy
	before, after Entries
	// skipped are the reasons that are reported already for the MachineHealthCheck.
	skipped map[v1alpha1.DecisionReason]bool
	events  []Event
}

// maxAction and maxNote are what the API takes in an event.
const maxAction, maxNote = 128, 1024

func (r *reporter) add(machine *Machine, eventType, reason, action, note string) {
	r.events = append(r.events, Event{
		Machine: machine, Type: eventType, Reason: reason, Action: object.Truncate(action, maxAction), Note: object.Truncate(note, maxNote),
	})
}

// both adds an event to the Machine and to the MachineHealthCheck.
func (r *reporter) both(machine *Machine, eventType, reason, action, note string) {
	r.add(machine, eventType, reason, action, note)
	r.add(nil, eventType, reason, action+"-"+machine.Name, note)
}

// detected reports once that something is wrong with a Machine, until that ends.
func (r *reporter) detected(result TargetResult) {
	t := result.Plan.Target
	entry, old := r.after[t.Machine.Name], r.before[t.Machine.Name]
	if t.Unselected || entry == nil || entry.Trigger == nil || t.deleting() || (old != nil && old.Trigger != nil) {
		return
	}
	r.add(t.Machine, corev1.EventTypeNormal, reasonDetectedUnhealthy, "Detect", fmt.Sprintf("Machine %s has unhealthy node %s", r.describe(t), t.Machine.Node))
}

// tookLease reports that the lease of another holder was no longer valid (spec 14.4).
func (r *reporter) tookLease(result TargetResult) {
	t := result.Plan.Target
	if note := remediation.LeaseTakenOver(t.Machine.Node, t.Lease, r.Owner); note != "" && result.Outcome.LeaseWritten {
		r.both(t.Machine, corev1.EventTypeNormal, reasonLeaseTakenOver, "TakeLease", prefix+note)
	}
}

// begun reports that a remediation has begun.
func (r *reporter) begun(result TargetResult) {
	plan, target := result.Plan, result.Plan.Target
	deletion, byObject := plan.Type == v1beta1.RemediationMachineDeletion, r.Criteria.Strategy == Template
	name, machine := r.describe(target), target.Machine
	switch {
	case !result.Outcome.Begun():
	case deletion:
		r.add(machine, corev1.EventTypeNormal, reasonMachineDeleted, "Delete", "Machine "+name+" has been remediated by requesting to delete Machine object")
	case byObject:
		r.both(machine, corev1.EventTypeNormal, reasonRemediationCreated, "Create", fmt.Sprintf(prefix+"Created remediation object for machine %s with node %s", machine.Name, machine.Node))
	default:
		r.add(machine, corev1.EventTypeNormal, reasonExternalAnnotationAdded, "Annotate", "Requesting external remediation of node associated with machine "+name)
	}
}

// failed reports that the request for a remediation has failed.
func (r *reporter) failed(result TargetResult) {
	plan, target := result.Plan, result.Plan.Target
	name, machine := r.describe(target), target.Machine
	switch {
	case !r.failedAnew(machine.Name):
	case plan.Type == v1beta1.RemediationMachineDeletion:
		r.add(machine, corev1.EventTypeWarning, reasonMachineDeletionFailed, "Delete",
			fmt.Sprintf("Machine %s remediation failed: unable to delete Machine object: %s", name, r.after[machine.Name].Decision.Message))
	case r.Criteria.Strategy != Template && plan.Type == v1beta1.RemediationExternal:
		r.add(machine, corev1.EventTypeWarning, reasonExternalAnnotationFailed, "Annotate",
			fmt.Sprintf("Requesting external remediation of node associated with machine %s failed: %s", name, r.after[machine.Name].Decision.Message))
	}
}

// failedAnew reports whether a write for a Machine has failed, for another cause than before.
func (r *reporter) failedAnew(machine string) bool {
	entry, old := r.after[machine], r.before[machine]
	return entry != nil && failing(entry.Decision.Reason) &&
		(old == nil || !old.Decision.SameReason(&entry.Decision) || old.Decision.Message != entry.Decision.Message)
}

// removed reports the remediation objects that were deleted.
func (r *reporter) removed(result TargetResult) {
	target := result.Plan.Target
	for _, cr := range result.Outcome.Deleted {
		note := fmt.Sprintf(prefix+"Deleted remediation CR of kind %s with name %s", cr.Kind, cr.Name)
		if target.Gone {
			r.add(nil, corev1.EventTypeNormal, reasonRemediationRemoved, "Delete-"+cr.Name, note)
			continue
		}
		r.both(target.Machine, corev1.EventTypeNormal, reasonRemediationRemoved, "Delete", note)
	}
}

// silent are refusals without an event: pauses, refusals that RemediationRestricted reports, and a
// dry run.
var silent = []v1alpha1.DecisionReason{
	v1alpha1.DecidedPaused, v1beta1.DecidedMachinePaused, v1beta1.DecidedClusterPaused, v1alpha1.DecidedGateClosed,
	v1alpha1.DecidedUnselected, v1alpha1.DecidedTerminating, v1alpha1.DecidedDryRun,
}

// refused reports why a remediation does not begin, when that reason begins to hold.
func (r *reporter) refused(result TargetResult) {
	plan := result.Plan
	machine := plan.Target.Machine
	entry, old := r.after[machine.Name], r.before[machine.Name]
	if !plan.Refused || entry == nil || result.Outcome.Err != nil || slices.Contains(silent, plan.Reason) || entry.Decision.Reason != plan.Reason {
		return
	}
	if failing(plan.Reason) || (old != nil && old.Decision.SameReason(&entry.Decision)) {
		return
	}
	if plan.Reason == v1beta1.DecidedNoController {
		r.add(machine, corev1.EventTypeNormal, reasonSkippedNoController, "Skip", fmt.Sprintf("Machine %s has no controller owner, skipping remediation", r.describe(plan.Target)))
		return
	}
	r.add(machine, corev1.EventTypeWarning, reasonRemediationSkipped, string(plan.Reason), prefix+entry.Decision.Message)
	if !r.skipped[plan.Reason] { // Once for all its Machines.
		r.skipped[plan.Reason] = true
		r.add(nil, corev1.EventTypeWarning, reasonRemediationSkipped, string(plan.Reason), prefix+entry.Decision.Message)
	}
}

// overdue reports that a remediation has not ended for a while, when that begins to hold.
func (r *reporter) overdue(result TargetResult) {
	machine := result.Plan.Target.Machine
	entry, old := r.after[machine.Name], r.before[machine.Name]
	if entry == nil || entry.Decision.Reason != v1beta1.DecidedRemediationOverdue || (old != nil && old.Decision.SameReason(&entry.Decision)) {
		return
	}
	note := prefix + entry.Decision.Message
	if result.Plan.Target.Gone {
		r.add(nil, corev1.EventTypeWarning, reasonRemediationOverdue, "Wait-"+machine.Name, note)
		return
	}
	r.both(machine, corev1.EventTypeWarning, reasonRemediationOverdue, "Wait", note)
}

// failing reports whether a reason is that of a failed write, which has events of its own.
func failing(reason v1alpha1.DecisionReason) bool {
	return reason == v1alpha1.DecidedCreateFailed || reason == v1alpha1.DecidedDeleteFailed || reason == v1alpha1.DecidedUpdateFailed
}

// restricted reports when the threshold begins to keep unhealthy Machines from being remediated.
func (r *reporter) restricted(results []TargetResult) {
	held := func(entries Entries) bool {
		for _, entry := range entries {
			if entry.Decision.Reason == v1alpha1.DecidedGateClosed && entry.Decision.NextCheckTime == nil { // Otherwise time holds it (spec M7.6).
				return true
			}
		}
		return false
	}
	unhealthy := slices.ContainsFunc(results, func(result TargetResult) bool { return result.Plan.Target.Verdict.State == Unhealthy })
	if !unhealthy || !held(r.after) || held(r.before) {
		return
	}
	r.add(nil, corev1.EventTypeWarning, reasonRemediationRestricted, fmt.Sprintf("Restrict-%d-of-%d", r.Summary.Unhealthy(), r.Summary.Expected),
		fmt.Sprintf("Remediation restricted due to exceeded number of unhealthy machines (total: %d, unhealthy: %d, maxUnhealthy: %s)",
			r.Summary.Expected, r.Summary.Unhealthy(), r.Summary.MaxUnhealthy.String()))
}
