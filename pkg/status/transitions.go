// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Actions returns the events of the actions of this sync: of each created CR, after the detection of
// its node if that was not reported yet, and of each deletion request (spec 19.1). They do not wait
// for the write of the status, because no later sync may know of them. It also returns the reported
// transitions with these events.
func (r *Report) Actions() ([]Event, Reported) {
	var all []Event
	var created []types.UID
	var detected []string
	for i, result := range r.in.Results {
		node := result.Plan.Node
		if note := remediation.LeaseTakenOver(node.Name, result.Outcome.LeaseBefore, r.in.Policy.Owner); note != "" && result.Outcome.LeaseWritten {
			all = append(all, leaseTakenOver(node, note))
		}
		if cr := result.Outcome.NewCR(); cr != nil {
			if r.detectedNow(i) {
				all = append(all, detectedUnhealthy(node))
				detected = append(detected, node.Name)
			}
			if r.createdUnreported(i, cr) {
				all = append(all, remediationCreated(node, cr.Kind))
			}
			created = append(created, cr.UID)
		}
		for _, cr := range result.Outcome.Deleted {
			all = append(all, remediationRemoved(node, cr))
		}
	}
	reported := r.in.Before.Reported
	if len(created) > 0 {
		reported.created = reported.created.Clone().Insert(created...)
		reported.detected = slices.Sorted(slices.Values(slices.Concat(reported.detected, detected)))
	}
	return all, reported
}

// detectedNow reports whether the node of a result is unhealthy, and no event has said so yet.
func (r *Report) detectedNow(i int) bool {
	plan := r.in.Results[i].Plan
	return detects(plan) && r.in.Listed[i] == nil && !r.in.Before.Reported.wasDetected(plan.Node.Name)
}

// createdUnreported reports whether a CR was created for the node of a result, and no event has said
// so yet.
func (r *Report) createdUnreported(i int, cr *object.CR) bool {
	entry := r.in.Listed[i]
	shown := entry != nil && slices.ContainsFunc(entry.Remediations, func(shown v1alpha1.Remediation) bool { return shown.Resource.UID == cr.UID })
	return !shown && !r.in.Before.Reported.created.Has(cr.UID)
}

// Transitions returns the events for the changes between the old and the new status (spec
// 19.1). For changes that status does not show, it compares with the reported transitions.
func (r *Report) Transitions() []Event {
	var all []Event
	context, before := &r.in.Policy.Context, &r.in.Before.Reported
	all = append(all, r.disabledTransition()...)
	if selectsNone(r.Status) && !selectsNone(&r.in.Check.Status) {
		all = append(all, noNodes())
	}
	switch paused := len(r.in.Check.Spec.PauseRequests) > 0; {
	case context.Constraints.Upgrading:
		if !before.upgrading {
			all = append(all, skippedForUpgrade())
		}
	case paused && !before.paused && r.in.Check.Status.Phase != v1alpha1.PhasePaused:
		all = append(all, skippedForPause())
	}
	all = append(all, r.nodeTransitions()...)
	for node, cr := range r.oldCRs {
		if !before.old.Has(cr.UID) {
			all = append(all, oldRemediation(node, cr))
		}
	}
	if context.SpecProblem != "" && context.SpecProblem != before.specProblem && r.refused(v1alpha1.DecidedInvalidSpec) {
		all = append(all, skippedForSpec(context.SpecProblem))
	}
	if !before.gateClosed && r.refused(v1alpha1.DecidedGateClosed) {
		all = append(all, skippedForGate(context.Gate))
	}
	all = append(all, r.stormTransitions()...)
	if !before.storm && r.refused(v1alpha1.DecidedStormActive) {
		all = append(all, skippedForStorm())
	}
	return all
}

// selectsNone reports whether a status says that the selector selects no node.
func selectsNone(status *v1alpha1.NodeHealthCheckStatus) bool {
	allowed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRemediationAllowed)
	return allowed != nil && allowed.Reason == v1alpha1.ReasonNoNodes
}

// stormTransitions compares the storm before and after (spec 9).
func (r *Report) stormTransitions() []Event {
	before, after := health.StormOf(&r.in.Check.Status), r.in.Policy.Context.Storm
	var all []Event
	if !before.Active && after.Active {
		all = append(all, stormStarted())
	}
	if before.CalmSince.IsZero() && !after.CalmSince.IsZero() {
		all = append(all, stormCooldownStarted())
	}
	if before.Active && !after.Active {
		all = append(all, stormEnded())
	}
	return all
}

// disabledTransition compares the condition Disabled (spec 6.3).
func (r *Report) disabledTransition() []Event {
	before := meta.FindStatusCondition(r.in.Check.Status.Conditions, v1alpha1.ConditionDisabled)
	after := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDisabled)
	switch {
	case after == nil:
		return nil
	case after.Status == metav1.ConditionTrue:
		if before == nil || before.Status != metav1.ConditionTrue || before.Reason != after.Reason {
			return []Event{disabled(after.Reason, after.Message)}
		}
	case before == nil || before.Status == metav1.ConditionTrue:
		return []Event{enabled()}
	}
	return nil
}

// nodeTransitions reports which nodes became unhealthy, got a CR, or are exempt.
func (r *Report) nodeTransitions() []Event {
	ended := sets.New[types.UID]()
	for i := range r.in.Check.Status.UnhealthyNodes {
		entry := &r.in.Check.Status.UnhealthyNodes[i]
		for j := range entry.Remediations {
			if entry.Remediations[j].TimedOut != nil {
				ended.Insert(entry.Remediations[j].Resource.UID)
			}
		}
	}
	gone := map[string][]*object.CR{}
	for _, cr := range r.in.Gone {
		gone[cr.Node()] = append(gone[cr.Node()], cr)
	}
	var all []Event
	before, after := &r.in.Before.Reported, Finder{Entries: r.Entries}
	for i, result := range r.in.Results {
		plan, node := result.Plan, result.Plan.Node
		if node.Constraints.NodeDeleted {
			continue // A deleted Node gets no events.
		}
		if r.detectedNow(i) && result.Outcome.NewCR() == nil { // Otherwise it is in Actions.
			all = append(all, detectedUnhealthy(node))
		}
		if skipped, reports := skippedForNode(plan); reports && before.refused[node.Name] != plan.Refusal() {
			all = append(all, skipped)
		}
		if r.in.Listed[i] != nil && after.Entry(node.Name) == nil && node.Constraints.Unselected && node.Verdict.State != health.Healthy {
			all = append(all, notSelectedAnyMore(node))
		}
		if plan.ExhaustedBy(result.Outcome) && (len(node.Own) == 0 || endedNow(result, ended)) && !before.exhausted.Has(node.Name) {
			all = append(all, noTemplateLeft(r.in.Check.Name, node))
		}
		if cr := plan.Failed; cr != nil && !before.failed.Has(cr.UID) {
			all = append(all, remediationFailed(node, cr))
		}
		if ignoresLabel(plan) && !before.invalidLabel.Has(node.Name) {
			all = append(all, invalidNodeLabel(node))
		}
		for _, cr := range slices.Concat(node.Own, gone[node.Name]) { // CRs of an earlier process, and creations whose answer was lost.
			ours := !cr.Deleting() || node.DeletionRequested[cr.UID] // Since this process watches it.
			if ours && r.createdUnreported(i, cr) {
				all = append(all, remediationCreated(node, cr.Kind))
			}
		}
	}
	return all
}

// remediationsAfter returns the own CRs of a node, with the one that is new.
func remediationsAfter(result remediation.NodeResult) []*object.CR {
	if cr := result.Outcome.NewCR(); cr != nil {
		return append(slices.Clip(result.Plan.Node.Own), cr)
	}
	return result.Plan.Node.Own
}

// detects reports whether the node is unhealthy, and this NodeHealthCheck has to report
// it.
func detects(plan *remediation.NodePlan) bool {
	return plan.Node.Verdict.State == health.Unhealthy && !plan.Node.Constraints.Unselected
}

// endedNow reports whether a step of a node ended that status did not show as ended.
func endedNow(result remediation.NodeResult, ended sets.Set[types.UID]) bool {
	return slices.ContainsFunc(result.Plan.Node.Own, func(cr *object.CR) bool {
		_, now := result.Outcome.TimedOut[cr.UID]
		return (now || cr.TimedOut()) && !ended.Has(cr.UID)
	})
}

// oldCRs yields the own CRs that are older than 48 hours, with their nodes (spec 17.6).
func (r *Report) oldCRs(yield func(*remediation.Node, *object.CR) bool) {
	for _, result := range r.in.Results {
		for _, cr := range result.Plan.Node.Own {
			old := !r.in.Now.Before(cr.CreationTimestamp.Add(v1alpha1.OldRemediationAge))
			if old && !yield(result.Plan.Node, cr) {
				return
			}
		}
	}
}

// ignoresLabel reports whether an unhealthy node carries the exclusion label with a value
// that has no effect.
func ignoresLabel(plan *remediation.NodePlan) bool {
	return plan.Node.Verdict.State == health.Unhealthy && plan.Node.ExclusionIgnored
}

// refused reports whether some node without CR waits for this reason.
func (r *Report) refused(reason v1alpha1.DecisionReason) bool {
	for _, result := range r.in.Results {
		if result.Plan.Refusal() == reason && len(result.Plan.Node.Own) == 0 {
			return true
		}
	}
	return false
}
