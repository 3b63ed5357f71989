// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// ourConditions are the types of conditions in status. Others are removed.
var ourConditions = []string{
	v1alpha1.ConditionDisabled, v1alpha1.ConditionRemediationAllowed, v1alpha1.ConditionSelectorOverlap,
	v1alpha1.ConditionStormActive, v1alpha1.ConditionStormCooldownActive,
	v1alpha1.ConditionLeftoverRemediations, v1alpha1.ConditionPlatformAccess, v1alpha1.ConditionStalled,
}

// newConditions returns the conditions, which keep the time of their last transition.
func (r *Report) newConditions() []metav1.Condition {
	nhc, now := r.in.Check, r.in.Now
	var conditions []metav1.Condition
	for _, conditionType := range ourConditions {
		if old := meta.FindStatusCondition(nhc.Status.Conditions, conditionType); old != nil {
			conditions = append(conditions, *old)
		}
	}
	setDisabled(&conditions, nhc, r.in.TemplateProblem, r.in.TemplatesUnknown, now)
	setRemediationAllowed(&conditions, nhc, &r.in.Policy.Context, now)
	setSelectorOverlap(&conditions, nhc, r.in.Overlaps, now)
	setStorm(&conditions, nhc, r.in.Policy.Context.Storm, now)
	setLeftoverRemediations(&conditions, nhc, r.leftovers(), now)
	setPlatformAccess(&conditions, nhc, r.in.PlatformProblem, now)
	setStalled(&conditions, nhc, &r.in.Policy.Context, now)
	for i := range conditions {
		conditions[i].Message = shorten(conditions[i].Message)
	}
	return conditions
}

// setRemediationAllowed sets the condition that says whether remediations may begin, by the
// constraints of all nodes (spec 18.5).
func setRemediationAllowed(conditions *[]metav1.Condition, nhc *v1alpha1.NodeHealthCheck, context *remediation.Context, now time.Time) {
	condition := metav1.Condition{
		Type:               v1alpha1.ConditionRemediationAllowed,
		Status:             metav1.ConditionFalse,
		ObservedGeneration: nhc.Generation,
		LastTransitionTime: seconds(now),
	}
	var allowed bool
	allowed, condition.Reason, condition.Message = context.Allowance()
	if allowed {
		condition.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, condition)
}

// setStalled tells tools that know no other condition that nothing begins until you correct something (spec
// 18.7). It is called after setDisabled.
func setStalled(conditions *[]metav1.Condition, nhc *v1alpha1.NodeHealthCheck, context *remediation.Context, now time.Time) {
	stalled := metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, ObservedGeneration: nhc.Generation, LastTransitionTime: seconds(now)}
	disabled := meta.FindStatusCondition(*conditions, v1alpha1.ConditionDisabled)
	switch {
	case disabled != nil && disabled.Status == metav1.ConditionTrue:
		stalled.Reason, stalled.Message = disabled.Reason, disabled.Message
	case context.SpecProblem != "":
		stalled.Reason, stalled.Message = string(v1alpha1.DecidedInvalidSpec), context.SpecProblem
	case context.Gate.Observed == 0:
		stalled.Reason, stalled.Message = v1alpha1.ReasonNoNodes, v1alpha1.MessageNoNodes
	default:
		meta.RemoveStatusCondition(conditions, stalled.Type)
		return
	}
	meta.SetStatusCondition(conditions, stalled)
}

// setPlatformAccess names the part of the platform that cannot be read (spec 10.2).
func setPlatformAccess(conditions *[]metav1.Condition, nhc *v1alpha1.NodeHealthCheck, problem *remediation.Problem, now time.Time) {
	if problem == nil {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionPlatformAccess)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               v1alpha1.ConditionPlatformAccess,
		Status:             metav1.ConditionFalse,
		Reason:             problem.Reason,
		Message:            problem.Message + ". Until then, the controller treats an upgrade that it knew of as still running, and does not notice a new one.",
		ObservedGeneration: nhc.Generation,
		LastTransitionTime: seconds(now),
	})
}

// setDisabled names the problem with the templates. The condition stays as it was until
// the templates are known.
func setDisabled(conditions *[]metav1.Condition, nhc *v1alpha1.NodeHealthCheck, problem *remediation.Problem, unknown bool, now time.Time) {
	if problem == nil && unknown {
		return
	}
	condition := metav1.Condition{
		Type:               v1alpha1.ConditionDisabled,
		Status:             metav1.ConditionFalse,
		Reason:             v1alpha1.ReasonEnabled,
		Message:            v1alpha1.MessageEnabled,
		ObservedGeneration: nhc.Generation,
		LastTransitionTime: seconds(now),
	}
	if problem != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, problem.Reason, problem.Message
	}
	meta.SetStatusCondition(conditions, condition)
}
