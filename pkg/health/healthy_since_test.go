// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
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
			require.Equal(t, tc.want, HealthySince(tc.known, rules, nil, Evidence{Conditions: conditions}, tc.now))
		})
	}
	require.Equal(t, known, HealthySince(known, rules, nil, Evidence{}, now), "no conditions say nothing")
}

// TestHealthySinceSeenBefore: earlier sightings separate interruptions from other changes,
// with any clock of the kubelet.
func TestHealthySinceSeenBefore(t *testing.T) {
	t.Parallel()
	rules := []v1alpha1.UnhealthyCondition{{Type: "Disk", Status: "True"}}
	known, now := after(10), after(60)
	// version is a version of a Node that the process sees a number of seconds after epoch.
	type version struct {
		seen   int
		status corev1.ConditionStatus
		at     int
		// missed means that there may have been others since the one before.
		missed bool
	}
	none := version{}
	tests := map[string]struct {
		before version
		since  []version
		want   time.Time
	}{
		"16.4 nothing has changed":                                {before: version{10, "False", 5, false}, since: []version{{20, "False", 5, false}}, want: known},
		"16.4 a change between two statuses that no rule matches": {before: version{10, "False", 5, false}, since: []version{{20, "Unknown", 20, false}}, want: known},
		"16.4 by a clock that was ahead when it was seen first":   {before: version{10, "False", 40, false}, since: []version{{20, "False", 40, false}}, want: known},
		"16.4 the condition is new":                               {before: none, since: []version{{20, "False", 20, false}}, want: known},
		"16.4 the condition has gone":                             {before: version{10, "False", 5, false}, want: known},
		"16.4 the time moves with each heartbeat":                 {before: version{10, "False", 5, false}, since: []version{{20, "False", 20, false}, {30, "False", 30, false}}, want: known},
		"16.4 the time moves, by a clock that is ahead":           {before: version{10, "False", 50, false}, since: []version{{20, "False", 60, false}, {50, "False", 90, false}}, want: known},
		"16.4 the time moves back":                                {before: version{10, "False", 5, false}, since: []version{{20, "False", 2, false}}, want: known},
		"P11 it was another one in between":                       {before: version{10, "False", 5, false}, since: []version{{20, "False", 20, true}}, want: now},
		"P11 by a clock that is ahead":                            {before: version{10, "False", 5, false}, since: []version{{20, "False", 90, true}}, want: now},
		"P11 by a clock that is behind":                           {before: version{10, "False", 5, false}, since: []version{{20, "False", 2, true}}, want: now},
		"P11 between two syncs":                                   {before: version{10, "False", 5, false}, since: []version{{20, "True", 20, false}, {21, "False", 21, false}}, want: now},
		"P11 between two syncs, by a clock that has gone back":    {before: version{10, "False", 5, false}, since: []version{{20, "True", 20, false}, {21, "False", 5, false}}, want: now},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := []Sighting{{Type: "Other"}}
			see := func(seen []Sighting, v version) ([]Sighting, []corev1.NodeCondition) {
				condition := corev1.NodeCondition{Type: "Disk", Status: v.status, LastTransitionTime: metav1.NewTime(after(v.at))}
				var last *Sighting
				if i := slices.IndexFunc(seen, func(s Sighting) bool { return s.Type == "Disk" }); i >= 0 {
					last = &seen[i]
				}
				return []Sighting{{Type: "Other"}, last.Next(&condition, !v.missed, after(v.seen))}, []corev1.NodeCondition{condition}
			}
			if tc.before != none {
				before, _ = see(nil, tc.before)
			}
			evidence := Evidence{Seen: before}
			for _, v := range tc.since {
				evidence.Seen, evidence.Conditions = see(evidence.Seen, v)
			}
			require.True(t, evidence.UpToDate())
			require.Equal(t, tc.want, HealthySince(known, rules, before, evidence, now))
		})
	}
}

// TestUpToDate: the cache may be ahead of what the handler of Nodes has recorded, or behind it.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	seen := []Sighting{{Type: "Ready", Status: "True", Transition: after(5)}, {Type: "Gone", Status: "True"}}
	for name, tc := range map[string]struct {
		status corev1.ConditionStatus
		at     int
		seen   []Sighting
		want   bool
	}{
		"the same":                  {"True", 5, seen, true},
		"another status":            {"False", 5, seen, false},
		"another time":              {"True", 6, seen, false},
		"nothing is remembered":     {"True", 6, nil, true},
		"it is of other conditions": {"True", 6, seen[1:], true},
	} {
		t.Run("16.4 "+name, func(t *testing.T) {
			t.Parallel()
			conditions := []corev1.NodeCondition{{Type: "Ready", Status: tc.status, LastTransitionTime: metav1.NewTime(after(tc.at))}}
			require.Equal(t, tc.want, (&Evidence{Conditions: conditions, Seen: tc.seen}).UpToDate())
		})
	}
}
