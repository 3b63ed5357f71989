// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// OnePerType returns the conditions of a Node with one of each type. A JSON patch can append a second condition of a
// type, and the API server stores it. The worse one counts: that whose status is not the usual one of a healthy node, or
// else the one that has changed last (spec 7.2).
func OnePerType(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	single := make([]corev1.NodeCondition, 0, len(conditions))
	for i := range conditions {
		condition := &conditions[i]
		other := slices.IndexFunc(single, func(c corev1.NodeCondition) bool { return c.Type == condition.Type })
		if other < 0 {
			single = append(single, *condition)
		} else if worse(condition, &single[other]) {
			single[other] = *condition
		}
	}
	return single
}

// worse reports whether a condition counts instead of another one of its type.
func worse(condition, other *corev1.NodeCondition) bool {
	if bad := unusual(condition); bad != unusual(other) {
		return bad
	}
	return condition.LastTransitionTime.After(other.LastTransitionTime.Time)
}

// unusual reports whether a healthy node does not usually have this status: True if it is Ready, False otherwise.
func unusual(condition *corev1.NodeCondition) bool {
	if condition.Type == corev1.NodeReady {
		return condition.Status != corev1.ConditionTrue
	}
	return condition.Status != corev1.ConditionFalse
}
