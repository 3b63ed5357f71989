// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// The messages of the conditions of a storm (spec 9.8).
const (
	stormActive    = "Storm mode is activated - preventing any new remediation until the storm is over and cooldown duration expired"
	stormOver      = "Storm mode is deactivated, remediation can occur normally"
	cooldownBegun  = "Storm cooldown delay started - waiting before resuming normal remediation"
	cooldownLost   = "Cooldown cleared - storm threshold triggered"
	cooldownPassed = "Storm cooldown completed"
)

// checkStorm compares the storm in status with its rules (spec 9).
func (s *settledCheck) checkStorm() {
	spec, status := &s.nhc.Spec, &s.nhc.Status
	active := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStormActive)
	cooling := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStormCooldownActive)
	isActive := active != nil && active.Status == metav1.ConditionTrue
	if !Stormy(spec) {
		s.check("9.10", "", active != nil || cooling != nil || status.StormRecoveryActive != nil || status.StormRecoveryStartTime != nil, "a storm is in status without being configured")
		return
	}
	s.check("9.2", "", s.counts.MayBegin(spec) && !isActive, "no storm, with %+v", s.counts)
	s.check("9.9", "", (spec.StormRecoveryThreshold != nil) != (status.StormRecoveryActive != nil), "stormRecoveryActive is %v", status.StormRecoveryActive)
	s.check("9.9", "", status.StormRecoveryActive != nil && *status.StormRecoveryActive != isActive, "stormRecoveryActive is not as condition StormActive")
	s.check("9.9", "", isActive != (status.StormRecoveryStartTime != nil), "stormRecoveryStartTime is %v", status.StormRecoveryStartTime)
	calm := s.counts.Calm(spec)
	if isActive && calm {
		s.check("9.5", "", cooledDown(spec, status, s.now), "the storm is not over, with %+v", s.counts)
	}
	s.checkStormConditions(active, cooling, calm)
}

// checkStormConditions judges the texts of the conditions (spec 9.8).
func (s *settledCheck) checkStormConditions(active, cooling *metav1.Condition, calm bool) {
	isActive := active != nil && active.Status == metav1.ConditionTrue
	cooldown := s.nhc.Spec.StormCooldownDuration != nil
	is := func(condition *metav1.Condition, status metav1.ConditionStatus, message string) bool {
		return condition != nil && condition.Status == status && condition.Message == message && condition.Reason == v1alpha1.ReasonStorm
	}
	switch {
	case isActive:
		s.check("9.8", "", !is(active, metav1.ConditionTrue, stormActive), "StormActive is %v", active)
	case active != nil:
		s.check("9.8", "", !is(active, metav1.ConditionFalse, stormOver), "StormActive is %v", active)
	}
	switch {
	case !cooldown:
		s.check("9.8", "", cooling != nil, "StormCooldownActive is %v without a cooldown", cooling)
	case isActive && calm:
		s.check("9.8", "", !is(cooling, metav1.ConditionTrue, cooldownBegun), "StormCooldownActive of a calm storm is %v", cooling)
	case isActive:
		s.check("9.8", "", !is(cooling, metav1.ConditionFalse, cooldownLost), "StormCooldownActive of a storm is %v", cooling)
	case cooling != nil:
		s.check("9.8", "", !is(cooling, metav1.ConditionFalse, cooldownPassed), "StormCooldownActive after a storm is %v", cooling)
	}
}
