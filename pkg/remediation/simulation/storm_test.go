// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// What package controller does about storms, which cannot be imported here. Between
// syncs a storm is kept in status only.

// weather is controller.world.weather.
func (s *sight) weather(created int) health.StormInput {
	return health.StormInput{Gate: s.gate, Unhealthy: s.fleet.Unhealthy, Remediated: s.fleet.Remediated + created}
}

// grounds is controller.world.grounds.
func (s *sight) grounds() remediation.Context {
	return remediation.Context{Gate: s.gate, Storm: s.storm, StormEnd: s.storm.End(health.StormRulesOf(&s.nhc.Spec)), SpecProblem: remediation.SpecProblem(&s.nhc.Spec)}
}

// settleStorm is controller.world.settle: to reach the limit is enough to begin a storm.
func (s *sight) settleStorm(plans []remediation.NodePlan, outcomes []remediation.Outcome) {
	s.storm = s.storm.Next(health.StormRulesOf(&s.nhc.Spec), s.weather(firstCRs(plans, outcomes)), s.now)
	s.policy.Context = s.grounds()
}

// firstCRs counts the nodes that have got their first CR.
func firstCRs(plans []remediation.NodePlan, outcomes []remediation.Outcome) int {
	created := 0
	for i := range plans {
		if outcomes[i].NewCR() != nil && len(plans[i].Node.Own) == 0 {
			created++
		}
	}
	return created
}

// setStorm is controller.setStorm with controller.stormFields.
func (s *sight) setStorm(status *v1alpha1.NodeHealthCheckStatus) {
	rules := health.StormRulesOf(&s.nhc.Spec)
	set := func(conditionType string, active bool, since time.Time) {
		condition := metav1.Condition{
			Type: conditionType, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStorm,
			LastTransitionTime: metav1.NewTime(since.Truncate(time.Second)),
		}
		if active {
			condition.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	for _, known := range s.nhc.Status.Conditions {
		status.Conditions = append(status.Conditions, *known.DeepCopy())
	}
	known := func(conditionType string) bool {
		return meta.FindStatusCondition(status.Conditions, conditionType) != nil
	}
	switch {
	case !rules.Configured():
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionStormActive)
	case s.storm.Active:
		set(v1alpha1.ConditionStormActive, true, s.storm.Since)
	case known(v1alpha1.ConditionStormActive):
		set(v1alpha1.ConditionStormActive, false, s.now)
	}
	switch {
	case rules.Cooldown == nil:
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionStormCooldownActive)
	case s.storm.Active && s.storm.CalmSince.IsZero():
		set(v1alpha1.ConditionStormCooldownActive, false, s.now)
	case s.storm.Active:
		set(v1alpha1.ConditionStormCooldownActive, true, s.storm.CalmSince)
	case known(v1alpha1.ConditionStormCooldownActive):
		set(v1alpha1.ConditionStormCooldownActive, false, s.now)
	}
	if rules.Threshold != nil {
		status.StormRecoveryActive = &s.storm.Active
	}
	if s.storm.Active {
		status.StormRecoveryStartTime = new(metav1.NewTime(s.storm.Since))
	}
}

// randomStorm sets, changes or removes the fields of storm recovery.
func (w *world) randomStorm(spec *v1alpha1.NodeHealthCheckSpec) {
	if w.chance(60) {
		spec.StormRecoveryThreshold = oneOf(w, nil, new(int32(0)), new(int32(1)), new(int32(1)), new(int32(2)))
	}
	if w.chance(60) {
		spec.StormCooldownDuration = oneOf(w, nil, nil, &metav1.Duration{}, &metav1.Duration{Duration: 30 * time.Second}, &metav1.Duration{Duration: 2 * time.Minute}, &metav1.Duration{Duration: 15 * time.Minute})
	}
}
