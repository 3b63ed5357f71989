// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// HealthySince returns since when a node has been healthy by this evidence without interruption
// (spec 16.4, P11). The node is healthy at the instant now, and was healthy at the instant known.
// before are the sightings of its conditions when it was last healthy, nil if they are not known.
// The result has whole seconds if known has, and is never after now.
//
// No sync may have seen a short interruption. Then a condition that a rule names has its earlier
// status again, with a new beginning. If the process has seen every version, a transition time
// that moves alone is no interruption (spec 7.2 d). Neither is a change between two statuses that
// no rule matches. Only without earlier sightings, the times of kubelets are compared with now,
// because their clocks may be ahead.
//
// If known is in the future, it comes from a clock that was ahead, and now is the best estimate.
func HealthySince(known time.Time, rules []v1alpha1.UnhealthyCondition, before []Sighting, evidence Evidence, now time.Time) time.Time {
	since := known
	if since.After(now) {
		since = now.Truncate(time.Second)
	}
	for i := range evidence.Conditions {
		condition := &evidence.Conditions[i]
		if !slices.ContainsFunc(rules, func(rule v1alpha1.UnhealthyCondition) bool { return rule.Type == condition.Type }) {
			continue
		}
		changed := condition.LastTransitionTime.Time
		switch {
		case before != nil:
			if interrupted(before, evidence.sighting(condition, now)) {
				since = now.Truncate(time.Second)
			}
		case changed.After(since) && !changed.After(now):
			since = changed
		}
	}
	return since
}

// interrupted reports whether a condition may have had another status since it was seen before.
func interrupted(before []Sighting, current Sighting) bool {
	return slices.ContainsFunc(before, func(earlier Sighting) bool {
		return earlier.Type == current.Type && earlier.Status == current.Status && !earlier.Begun.Equal(current.Begun)
	})
}
