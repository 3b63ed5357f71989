// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestHealthySince: P11, durations are uninterrupted.
func TestHealthySince(t *testing.T) {
	t.Parallel()
	rules := []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False"}, {Type: "Disk", Status: "True"}}
	known, now := after(10), after(60)
	tests := map[string]struct {
		known              time.Time
		ready, disk, other int
		now                time.Time
		want               time.Time
	}{
		"nothing has changed":                   {want: known},
		"a condition has changed":               {ready: 20, want: after(20)},
		"two have, the last counts":             {ready: 20, disk: 30, want: after(30)},
		"two have, in the other order":          {ready: 30, disk: 20, want: after(30)},
		"one that is in no rule":                {other: 20, want: known},
		"at the same instant":                   {ready: 10, want: known},
		"by a clock that is ahead":              {ready: 61, want: known},
		"at this moment":                        {ready: 60, want: now},
		"P12 known from a clock that was ahead": {known: after(3660), now: now.Add(time.Millisecond), want: now},
		"P12 and a condition has changed":       {known: after(3660), ready: 20, want: now},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.known.IsZero() {
				tc.known = known
			}
			if tc.now.IsZero() {
				tc.now = now
			}
			changed := func(conditionType corev1.NodeConditionType, status corev1.ConditionStatus, at int) corev1.NodeCondition {
				return corev1.NodeCondition{Type: conditionType, Status: status, LastTransitionTime: metav1.NewTime(after(at))}
			}
			conditions := []corev1.NodeCondition{changed("Ready", "True", tc.ready), changed("Disk", "False", tc.disk), changed("Other", "False", tc.other)}
			require.Equal(t, tc.want, HealthySince(tc.known, rules, nil, conditions, tc.now))
		})
	}
	require.Equal(t, known, HealthySince(known, rules, nil, nil, now), "no conditions say nothing")
}

// TestHealthySinceSeenBefore: what was seen before tells an interruption from a change that
// is none, whatever the clock of the kubelet says.
func TestHealthySinceSeenBefore(t *testing.T) {
	t.Parallel()
	rules := []v1alpha1.UnhealthyCondition{{Type: "Disk", Status: "True"}}
	known, now := after(10), after(60)
	disk := func(status corev1.ConditionStatus, at int) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: "Disk", Status: status, LastTransitionTime: metav1.NewTime(after(at))}}
	}
	tests := map[string]struct {
		before, conditions []corev1.NodeCondition
		want               time.Time
	}{
		"16.4 nothing has changed":                                {before: disk("False", 5), conditions: disk("False", 5), want: known},
		"16.4 a change between two statuses that no rule matches": {before: disk("False", 5), conditions: disk("Unknown", 20), want: known},
		"16.4 by a clock that was ahead when it was seen first":   {before: disk("False", 40), conditions: disk("False", 40), want: known},
		"16.4 the condition is new":                               {before: []corev1.NodeCondition{{Type: "Other"}}, conditions: disk("False", 20), want: known},
		"16.4 the condition has gone":                             {before: disk("False", 5), want: known},
		"P11 it was another one in between":                       {before: disk("False", 5), conditions: disk("False", 20), want: now},
		"P11 by a clock that is ahead":                            {before: disk("False", 5), conditions: disk("False", 90), want: now},
		"P11 by a clock that is behind":                           {before: disk("False", 5), conditions: disk("False", 2), want: now},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, HealthySince(known, rules, tc.before, tc.conditions, now))
		})
	}
}
