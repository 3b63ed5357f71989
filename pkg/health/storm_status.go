// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// StormRulesOf returns the settings of storm recovery.
func StormRulesOf(spec *v1alpha1.NodeHealthCheckSpec) StormRules {
	var rules StormRules
	if spec.StormRecoveryThreshold != nil {
		rules.Threshold = new(int(*spec.StormRecoveryThreshold))
	}
	if spec.StormCooldownDuration != nil {
		rules.Cooldown = &spec.StormCooldownDuration.Duration
	}
	return rules
}

// StormOf returns the storm that status records, also one that was written by the
// upstream operator before there were conditions for it. Status is where a storm is kept
// between two evaluations.
func StormOf(status *v1alpha1.NodeHealthCheckStatus) Storm {
	var storm Storm
	if active := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStormActive); active != nil {
		storm.Active, storm.Since = active.Status == metav1.ConditionTrue, active.LastTransitionTime.Time
	} else {
		storm.Active = status.StormRecoveryActive != nil && *status.StormRecoveryActive
	}
	if !storm.Active {
		return Storm{}
	}
	if status.StormRecoveryStartTime != nil {
		storm.Since = status.StormRecoveryStartTime.Time
	}
	if calm := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStormCooldownActive); calm != nil && calm.Status == metav1.ConditionTrue {
		storm.CalmSince = calm.LastTransitionTime.Time
	}
	return storm
}
