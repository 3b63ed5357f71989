// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// sameStatus reports whether two statuses are equal. For thousands of entries, reflection
// would cost more than the rest of the sync.
func sameStatus(a, b *v1alpha1.NodeHealthCheckStatus) bool {
	restA, restB := *a, *b
	restA.UnhealthyNodes, restB.UnhealthyNodes = nil, nil
	return slices.EqualFunc(a.UnhealthyNodes, b.UnhealthyNodes, sameEntry) && equality.Semantic.DeepEqual(&restA, &restB)
}

func sameEntry(a, b v1alpha1.UnhealthyNode) bool {
	return a.Name == b.Name && slices.EqualFunc(a.Remediations, b.Remediations, sameRemediation) &&
		a.ConditionsHealthyTimestamp.Equal(b.ConditionsHealthyTimestamp) && sameValue(a.HealthyDelayed, b.HealthyDelayed) &&
		sameValue(a.Trigger, b.Trigger) && a.Detected.Equal(b.Detected) && sameDecision(a.Decision, b.Decision)
}

// sameValue reports whether two pointers are nil, or point to equal values.
func sameValue[T comparable](a, b *T) bool {
	return a == b || (a != nil && b != nil && *a == *b)
}

func sameRemediation(a, b v1alpha1.Remediation) bool {
	return a.Resource == b.Resource && a.Started.Equal(&b.Started) && a.TimedOut.Equal(b.TimedOut) && a.TemplateName == b.TemplateName
}

func sameDecision(a, b *v1alpha1.Decision) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type && a.Reason == b.Reason && a.Message == b.Message && a.Since.Equal(&b.Since) && a.NextCheckTime.Equal(b.NextCheckTime)
}
