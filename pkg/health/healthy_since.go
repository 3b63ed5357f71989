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
// to have been at the instant known. The result has whole seconds if known has, and is
// never after now.
//
// A condition that a rule is about and that has changed since then was another one in
// between, which nobody may have seen: the time begins anew. A change that has yet to
// come, by another machine's clock, is none. If known has yet to come, it was read from a
// clock that was ahead, and now is the best that is known.
func HealthySince(known time.Time, rules []v1alpha1.UnhealthyCondition, conditions []corev1.NodeCondition, now time.Time) time.Time {
	since := known
	if since.After(now) {
		since = now.Truncate(time.Second)
	}
	for i := range conditions {
		changed := conditions[i].LastTransitionTime.Time
		concerns := func(rule v1alpha1.UnhealthyCondition) bool { return rule.Type == conditions[i].Type }
		if changed.After(since) && !changed.After(now) && slices.ContainsFunc(rules, concerns) {
			since = changed
		}
	}
	return since
}
