// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSelectorOverlap: the condition names the others in order, and moves only when it flips (spec 18.5).
func TestSelectorOverlap(t *testing.T) {
	t.Parallel()
	nhc, now, c := testCheck(), epoch, &conditions{}
	const begin, end = "Nodes are selected by other NodeHealthChecks too: ", ". The one that obtains the lease of a node first remediates it"
	next := func(shared map[string]int) metav1.Condition {
		now = now.Add(1500 * time.Millisecond)
		c.generation, c.now = nhc.Generation, now
		c.setSelectorOverlap(shared)
		require.Len(t, c.list, 1)
		return c.list[0]
	}
	none := next(nil)
	require.Equal(t, metav1.Condition{
		Type: "SelectorOverlap", Status: "False", Reason: "NoOverlap", Message: "No other NodeHealthCheck selects any of the nodes",
		ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(epoch.Add(time.Second)),
	}, none)
	require.Equal(t, none, next(map[string]int{}), "P3")

	begun := next(map[string]int{"b": 1})
	require.Equal(t, metav1.Condition{
		Type: "SelectorOverlap", Status: "True", Reason: "NodesSelectedTwice", Message: begin + `"b" (1)` + end,
		ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(epoch.Add(4 * time.Second)),
	}, begun)
	require.Equal(t, begun, next(map[string]int{"b": 1}), "P3")

	nhc.Generation = 4
	more := next(map[string]int{"c": 3, "b": 2})
	require.Equal(t, begin+`"b" (2), "c" (3)`+end, more.Message, "P4")
	require.EqualValues(t, 4, more.ObservedGeneration, "18.5")
	require.Equal(t, begun.LastTransitionTime, more.LastTransitionTime, "moves only on a flip")

	over := next(nil)
	require.Equal(t, metav1.ConditionFalse, over.Status, "P12")
	require.Equal(t, epoch.Add(9*time.Second), over.LastTransitionTime.Time)
}
