// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// HealthySince returns since when a node has been healthy by this evidence without
// interruption (spec 16.4, P11), given that it is healthy at the instant now and is known
// to have been at the instant known. Before is what was seen of its conditions when it was
// healthy last, nil if that is not known. The result has whole seconds if known has,
// and is never after now.
//
// An interruption may have been too short to be seen by a sync: then a condition that a rule
// is about has the status that it had before, and has begun anew. A time of its transition that
// moves while the process has seen each version is none (spec 7.2 d). A condition that has
// changed between two statuses that no rule matches was healthy all the time. Only where it is
// not known what was there before, the times that kubelets write are compared with now: their
// clocks may be ahead.
//
// If known has yet to come, it was read from a clock that was ahead, and now is the best
// that is known.
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
