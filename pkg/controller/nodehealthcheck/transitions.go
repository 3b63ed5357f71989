// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

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

// removals returns the events of all deletion requests that were issued.
func (r *syncResult) removals() []event {
	var all []event
	for _, result := range r.results {
		for _, cr := range result.Outcome.Deleted {
			all = append(all, remediationRemoved(r.nodeObject(result.Plan.Node.Name), cr))
		}
	}
	return all
}

// transitions returns the events by which the status before and after differ, and where status does not show
// it, what was reported before.
func (r *syncResult) transitions() []event {
	var all []event
	all = append(all, r.disabledTransition()...)
	switch paused := len(r.nhc.Spec.PauseRequests) > 0; {
	case r.upgrading:
		if !r.state.reported.upgrading {
			all = append(all, skippedForUpgrade())
		}
	case paused && !r.state.reported.paused && r.nhc.Status.Phase != v1alpha1.PhasePaused:
		all = append(all, skippedForPause())
	}
	all = append(all, r.nodeTransitions()...)
	for _, cr := range r.oldCRs() {
		if !r.state.reported.old.Has(cr.UID) {
			all = append(all, oldRemediation(r.nodeObject(cr.Node()), cr))
		}
	}
	if r.specProblem != "" && r.specProblem != r.state.reported.specProblem && r.refused(v1alpha1.DecidedInvalidSpec) {
		all = append(all, skippedForSpec(r.specProblem))
	}
	if !r.state.reported.gateClosed && r.refused(v1alpha1.DecidedGateClosed) {
		all = append(all, skippedForGate(r.gate))
	}
	all = append(all, r.stormTransitions()...)
	if !r.state.reported.storm && r.refused(v1alpha1.DecidedStormActive) {
		all = append(all, skippedForStorm())
	}
	return all
}

// stormTransitions compares the storm before and after (spec 9).
func (r *syncResult) stormTransitions() []event {
	before, after := health.StormOf(&r.nhc.Status), r.storm
	var all []event
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
func (r *syncResult) disabledTransition() []event {
	before := meta.FindStatusCondition(r.nhc.Status.Conditions, v1alpha1.ConditionDisabled)
	after := meta.FindStatusCondition(r.status.Conditions, v1alpha1.ConditionDisabled)
	switch {
	case after == nil:
		return nil
	case after.Status == metav1.ConditionTrue:
		if before == nil || before.Status != metav1.ConditionTrue || before.Reason != after.Reason {
			return []event{disabled(after.Reason, after.Message)}
		}
	case before == nil || before.Status == metav1.ConditionTrue:
		return []event{enabled()}
	}
	return nil
}

// nodeTransitions reports which nodes became unhealthy, got a CR, or are exempt.
func (r *syncResult) nodeTransitions() []event {
	shown, ended := sets.New[types.UID](), sets.New[types.UID]()
	for i := range r.nhc.Status.UnhealthyNodes {
		entry := &r.nhc.Status.UnhealthyNodes[i]
		for j := range entry.Remediations {
			shown.Insert(entry.Remediations[j].Resource.UID)
			if entry.Remediations[j].TimedOut != nil {
				ended.Insert(entry.Remediations[j].Resource.UID)
			}
		}
	}
	var all []event
	for i, result := range r.results {
		plan, node := result.Plan, r.objects[i]
		if node == nil {
			continue // A deleted Node gets no events.
		}
		if detects(plan) && r.listed[i] == nil && !r.state.reported.wasDetected(node.Name) {
			all = append(all, detectedUnhealthy(node, plan.Node.Verdict))
		}
		if skipped, reports := skippedForNode(node, plan.Refusal()); reports && r.state.reported.refused[node.Name] != plan.Refusal() {
			all = append(all, skipped)
		}
		if plan.ExhaustedBy(result.Outcome) && endedNow(result, ended) && !r.state.reported.exhausted.Has(node.Name) {
			all = append(all, noTemplateLeft(r.nhc.Name, node))
		}
		if cr := plan.Failed; cr != nil && !r.state.reported.failed.Has(cr.UID) {
			all = append(all, remediationFailed(node, cr))
		}
		if ignoresLabel(plan) && !r.state.reported.invalidLabel.Has(node.Name) {
			all = append(all, invalidNodeLabel(node))
		}
		for _, cr := range existing(result) {
			if _, known := r.state.remediations[cr.UID]; !known && !shown.Has(cr.UID) && !cr.Deleting() {
				all = append(all, remediationCreated(node, cr.Kind))
			}
		}
	}
	return all
}

// existing returns the own CRs of a node, with the one that is new.
func existing(result remediation.NodeResult) []*object.CR {
	if cr := result.Outcome.NewCR(); cr != nil {
		return append(slices.Clip(result.Plan.Node.Own), cr)
	}
	return result.Plan.Node.Own
}

// detects reports whether the node is unhealthy and ours to say so.
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

// oldCRs returns the own CRs that are older than 48 hours (spec 17.6).
func (r *syncResult) oldCRs() []*object.CR {
	var old []*object.CR
	for _, result := range r.results {
		for _, cr := range result.Plan.Node.Own {
			if !r.now.Before(cr.CreationTimestamp.Add(v1alpha1.OldRemediationAge)) {
				old = append(old, cr)
			}
		}
	}
	return old
}

// ignoresLabel reports whether an unhealthy node carries the exclusion label in vain.
func ignoresLabel(plan *remediation.NodePlan) bool {
	return plan.Node.Verdict.State == health.Unhealthy && plan.Node.ExclusionIgnored
}

// refused reports whether some node without CR is kept waiting for this reason.
func (r *syncResult) refused(reason v1alpha1.DecisionReason) bool {
	for _, result := range r.results {
		if result.Plan.Refusal() == reason && len(result.Plan.Node.Own) == 0 {
			return true
		}
	}
	return false
}

// reportedNow returns what has been reported once this sync is. What no longer holds is
// forgotten, so that it is reported again when it comes back.
func (r *syncResult) reportedNow() reported {
	now := reported{
		gateClosed:   r.refused(v1alpha1.DecidedGateClosed),
		storm:        r.refused(v1alpha1.DecidedStormActive),
		paused:       len(r.nhc.Spec.PauseRequests) > 0 && !r.upgrading,
		upgrading:    r.upgrading,
		detected:     make([]string, 0, len(r.results)),
		exhausted:    sets.New[string](),
		failed:       sets.New[types.UID](),
		refused:      map[string]v1alpha1.DecisionReason{},
		invalidLabel: sets.New[string](),
		old:          sets.New[types.UID](),
	}
	for _, cr := range r.oldCRs() {
		now.old.Insert(cr.UID)
	}
	if r.refused(v1alpha1.DecidedInvalidSpec) {
		now.specProblem = r.specProblem
	}
	for i, result := range r.results {
		plan, node := result.Plan, r.objects[i]
		name := plan.Node.Name
		// An episode goes on while the node hesitates, and while it has a CR.
		if detects(plan) || (r.state.reported.wasDetected(name) && lasts(plan)) {
			now.detected = append(now.detected, name)
			if plan.ExhaustedBy(result.Outcome) || r.state.reported.exhausted.Has(name) {
				now.exhausted.Insert(name)
			}
		}
		for _, cr := range plan.Node.Own {
			if cr == plan.Failed || r.state.reported.failed.Has(cr.UID) {
				now.failed.Insert(cr.UID)
			}
		}
		if node == nil {
			continue // As in nodeTransitions.
		}
		if _, reports := skippedForNode(node, plan.Refusal()); reports {
			now.refused[name] = plan.Refusal()
		}
		if ignoresLabel(plan) {
			now.invalidLabel.Insert(name)
		}
	}
	return now
}

func lasts(plan *remediation.NodePlan) bool {
	return plan.Node.Verdict.State == health.SoonUnhealthy || len(plan.Node.Own) > 0
}
