// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Messages of the conditions of storm recovery (spec 9.8).
const (
	messageStormActive    = "Storm mode is activated - preventing any new remediation until the storm is over and cooldown duration expired"
	messageStormOver      = "Storm mode is deactivated, remediation can occur normally"
	messageCooldownBegun  = "Storm cooldown delay started - waiting before resuming normal remediation"
	messageCooldownLost   = "Cooldown cleared - storm threshold triggered"
	messageCooldownPassed = "Storm cooldown completed"
)

// stormFields returns what status says of a storm besides the conditions (spec 9.9).
func stormFields(nhc *v1alpha1.NodeHealthCheck, storm health.Storm) (active *bool, start *metav1.Time) {
	if nhc.Spec.StormRecoveryThreshold != nil {
		active = &storm.Active
	}
	if storm.Active {
		start = new(metav1.NewTime(storm.Since))
	}
	return active, start
}

// setStorm describes the storm (spec 9.8, 9.10).
func setStorm(conditions *[]metav1.Condition, nhc *v1alpha1.NodeHealthCheck, storm health.Storm, now time.Time) {
	set := func(conditionType string, status metav1.ConditionStatus, message string, since time.Time) {
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: conditionType, Status: status, Reason: v1alpha1.ReasonStorm, Message: message,
			ObservedGeneration: nhc.Generation, LastTransitionTime: seconds(since),
		})
	}
	rules := health.StormRulesOf(&nhc.Spec)
	switch {
	case !rules.Configured():
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionStormActive)
	case storm.Active:
		set(v1alpha1.ConditionStormActive, metav1.ConditionTrue, messageStormActive, storm.Since)
	case meta.FindStatusCondition(*conditions, v1alpha1.ConditionStormActive) != nil:
		set(v1alpha1.ConditionStormActive, metav1.ConditionFalse, messageStormOver, now)
	}
	switch {
	case rules.Cooldown == nil:
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionStormCooldownActive)
	case storm.Active && storm.CalmSince.IsZero():
		set(v1alpha1.ConditionStormCooldownActive, metav1.ConditionFalse, messageCooldownLost, now)
	case storm.Active:
		set(v1alpha1.ConditionStormCooldownActive, metav1.ConditionTrue, messageCooldownBegun, storm.CalmSince)
		// Without a transition it keeps its time, which may be the wrong one.
		meta.FindStatusCondition(*conditions, v1alpha1.ConditionStormCooldownActive).LastTransitionTime = seconds(storm.CalmSince)
	case meta.FindStatusCondition(*conditions, v1alpha1.ConditionStormCooldownActive) != nil:
		set(v1alpha1.ConditionStormCooldownActive, metav1.ConditionFalse, messageCooldownPassed, now)
	}
}
