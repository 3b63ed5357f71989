// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// HealthySince returns since when a node with these conditions has been healthy without
// interruption (spec 16.4, P11), given that it is healthy at the instant now and is known
// to have been at the instant known. Before are its conditions as they were when it was
// seen healthy last, nil if that is not known. The result has whole seconds if known has,
// and is never after now.
//
// An interruption may have been too short to be seen: then a condition that a rule is about
// has the status that it had before, and another time of its transition. One that has
// changed between two statuses that no rule matches was healthy all the time. The times
// that kubelets write are compared with each other where possible, and with now only where
// it is not known what was there before: their clocks may be ahead.
//
// If known has yet to come, it was read from a clock that was ahead, and now is the best
// that is known.
func HealthySince(known time.Time, rules []v1alpha1.UnhealthyCondition, before, conditions []corev1.NodeCondition, now time.Time) time.Time {
	since := known
	if since.After(now) {
		since = now.Truncate(time.Second)
	}
	for i := range conditions {
		condition := &conditions[i]
		if !slices.ContainsFunc(rules, func(rule v1alpha1.UnhealthyCondition) bool { return rule.Type == condition.Type }) {
			continue
		}
		changed := condition.LastTransitionTime.Time
		switch {
		case before != nil:
			if interrupted(before, condition) {
				since = now.Truncate(time.Second)
			}
		case changed.After(since) && !changed.After(now):
			since = changed
		}
	}
	return since
}

// interrupted reports whether a condition has had another status since it was seen before.
func interrupted(before []corev1.NodeCondition, condition *corev1.NodeCondition) bool {
	return slices.ContainsFunc(before, func(earlier corev1.NodeCondition) bool {
		return earlier.Type == condition.Type && earlier.Status == condition.Status && !earlier.LastTransitionTime.Equal(&condition.LastTransitionTime)
	})
}
