// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
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
func (c *conditions) setStorm(spec *v1alpha1.NodeHealthCheckSpec, storm health.Storm) {
	const active, cooling = v1alpha1.ConditionStormActive, v1alpha1.ConditionStormCooldownActive
	rules := health.StormRulesOf(spec)
	switch {
	case !rules.Configured():
		c.remove(active)
	case storm.Active:
		c.setSince(active, true, v1alpha1.ReasonStorm, messageStormActive, storm.Since)
	case meta.FindStatusCondition(c.list, active) != nil:
		c.set(active, false, v1alpha1.ReasonStorm, messageStormOver)
	}
	switch {
	case rules.Cooldown == nil:
		c.remove(cooling)
	case storm.Active && storm.CalmSince.IsZero():
		c.set(cooling, false, v1alpha1.ReasonStorm, messageCooldownLost)
	case storm.Active:
		c.setSince(cooling, true, v1alpha1.ReasonStorm, messageCooldownBegun, storm.CalmSince)
		// Without a transition it keeps its time, which may be the wrong one.
		meta.FindStatusCondition(c.list, cooling).LastTransitionTime = seconds(storm.CalmSince)
	case meta.FindStatusCondition(c.list, cooling) != nil:
		c.set(cooling, false, v1alpha1.ReasonStorm, messageCooldownPassed)
	}
}
