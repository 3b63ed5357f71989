// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// setSelectorOverlap sets the condition that names other NodeHealthChecks which select
// some of the same nodes.
func setSelectorOverlap(conditions *[]metav1.Condition, nhc *v1alpha1.NodeHealthCheck, shared map[string]int, now time.Time) {
	condition := metav1.Condition{
		Type:               v1alpha1.ConditionSelectorOverlap,
		Status:             metav1.ConditionFalse,
		Reason:             v1alpha1.ReasonNoOverlap,
		Message:            "No other NodeHealthCheck selects any of the nodes",
		ObservedGeneration: nhc.Generation,
		LastTransitionTime: seconds(now),
	}
	if len(shared) > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonOverlap
		condition.Message = overlapMessage(shared)
	}
	meta.SetStatusCondition(conditions, condition)
}

// The largest number of NodeHealthChecks in the message of condition SelectorOverlap, and
// of bytes of their names: it stays below 1 KB.
const (
	maxOverlapsNamed    = 10
	maxOverlapNamesSize = 800
)

// overlapMessage names the NodeHealthChecks that share nodes, in order, with their
// number.
func overlapMessage(shared map[string]int) string {
	var list strings.Builder
	named := 0
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		entry := fmt.Sprintf("%q (%d)", name, shared[name])
		if named == maxOverlapsNamed || list.Len()+len(entry) > maxOverlapNamesSize {
			break
		}
		if named > 0 {
			list.WriteString(", ")
		}
		list.WriteString(entry)
		named++
	}
	if more := len(shared) - named; more > 0 {
		fmt.Fprintf(&list, " and %d more", more)
	}
	return "Nodes are selected by other NodeHealthChecks too: " + list.String() + ". The one that obtains the lease of a node first remediates it"
}
