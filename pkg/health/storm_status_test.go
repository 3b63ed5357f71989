// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestStormOf reads storms from statuses that others have written.
func TestStormOf(t *testing.T) {
	t.Parallel()
	start := new(metav1.NewTime(noon))
	active := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: "StormActive", Status: status, LastTransitionTime: metav1.NewTime(noon.Add(time.Second))}}
	}
	calm := func(status metav1.ConditionStatus) []metav1.Condition {
		return append(active("True"), metav1.Condition{Type: "StormCooldownActive", Status: status, LastTransitionTime: metav1.NewTime(noon.Add(time.Minute))})
	}
	tests := map[string]struct {
		status v1alpha1.NodeHealthCheckStatus
		want   Storm
	}{
		"nothing":                      {},
		"upstream, without conditions": {status: v1alpha1.NodeHealthCheckStatus{StormRecoveryActive: new(true), StormRecoveryStartTime: start}, want: Storm{Active: true, Since: noon}},
		"upstream, no storm":           {status: v1alpha1.NodeHealthCheckStatus{StormRecoveryActive: new(false), StormRecoveryStartTime: start}},
		"the condition alone":          {status: v1alpha1.NodeHealthCheckStatus{Conditions: active("True")}, want: Storm{Active: true, Since: noon.Add(time.Second)}},
		"the condition decides":        {status: v1alpha1.NodeHealthCheckStatus{Conditions: active("False"), StormRecoveryActive: new(true)}},
		"the start time counts":        {status: v1alpha1.NodeHealthCheckStatus{Conditions: active("True"), StormRecoveryStartTime: start}, want: Storm{Active: true, Since: noon}},
		"a storm in its cooldown":      {status: v1alpha1.NodeHealthCheckStatus{Conditions: calm("True")}, want: Storm{Active: true, Since: noon.Add(time.Second), CalmSince: noon.Add(time.Minute)}},
		"a storm that is not calm":     {status: v1alpha1.NodeHealthCheckStatus{Conditions: calm("False")}, want: Storm{Active: true, Since: noon.Add(time.Second)}},
		"a cooldown without a storm":   {status: v1alpha1.NodeHealthCheckStatus{Conditions: []metav1.Condition{{Type: "StormCooldownActive", Status: "True"}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, StormOf(&tc.status))
		})
	}
}

func TestStormRules(t *testing.T) {
	t.Parallel()
	require.Equal(t, StormRules{}, StormRulesOf(&v1alpha1.NodeHealthCheckSpec{}))
	require.Equal(t, StormRules{Threshold: new(0)}, StormRulesOf(&v1alpha1.NodeHealthCheckSpec{StormRecoveryThreshold: new(int32(0))}), "9.1: zero is not nothing")
	require.Equal(t, StormRules{Threshold: new(5), Cooldown: new(time.Minute)},
		StormRulesOf(&v1alpha1.NodeHealthCheckSpec{StormRecoveryThreshold: new(int32(5)), StormCooldownDuration: &metav1.Duration{Duration: time.Minute}}))
}
