// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// SameConditions reports whether no verdict can tell the conditions apart: it compares type, status and transition time, in any order.
func SameConditions(a, b []corev1.NodeCondition) bool {
	// The order hardly ever changes.
	if slices.EqualFunc(a, b, sameCondition) {
		return true
	}
	return containsConditions(a, b) && containsConditions(b, a)
}

func containsConditions(all, some []corev1.NodeCondition) bool {
	for _, condition := range some {
		if !slices.ContainsFunc(all, func(other corev1.NodeCondition) bool { return sameCondition(condition, other) }) {
			return false
		}
	}
	return true
}

func sameCondition(a, b corev1.NodeCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}
