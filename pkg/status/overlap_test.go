// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOverlapMessage(t *testing.T) {
	t.Parallel()
	const begin, end = "Nodes are selected by other NodeHealthChecks too: ", ". The one that obtains the lease of a node first remediates it"
	many := map[string]int{}
	for i := range 14 {
		many[fmt.Sprintf("n%02d", i)] = i + 1
	}
	ten := map[string]int{}
	long := map[string]int{}
	for i := range 20 {
		long[fmt.Sprintf("%02d", i)+strings.Repeat("x", 251)] = 10000
	}
	const named = `"n00" (1), "n01" (2), "n02" (3), "n03" (4), "n04" (5), "n05" (6), "n06" (7), "n07" (8), "n08" (9), "n09" (10)`
	for i := range 10 {
		ten[fmt.Sprintf("n%02d", i)] = i + 1
	}
	require.Equal(t, begin+`"b" (12)`+end, overlapMessage(map[string]int{"b": 12}))
	require.Equal(t, begin+`"b" (12), "c" (3)`+end, overlapMessage(map[string]int{"c": 3, "b": 12}), "in order")
	require.Equal(t, begin+named+end, overlapMessage(ten))
	require.Equal(t, begin+named+" and 4 more"+end, overlapMessage(many), "bounded")
	require.Less(t, len(overlapMessage(long)), 1024, "by bytes, too")
	require.Contains(t, overlapMessage(long), `xxx" (10000) and 17 more`)
	middle := map[string]int{}
	for i := range 10 {
		middle[fmt.Sprintf("%02d", i)+strings.Repeat("x", 83)] = 1
	}
	require.Contains(t, overlapMessage(middle), `xxx" (1) and 2 more`, "800 bytes of names")
}

func TestSelectorOverlap(t *testing.T) {
	t.Parallel()
	nhc, now := testCheck(), epoch
	next := func(shared map[string]int) metav1.Condition {
		now = now.Add(1500 * time.Millisecond)
		setSelectorOverlap(&nhc.Status.Conditions, nhc, shared, now)
		require.Len(t, nhc.Status.Conditions, 1)
		return nhc.Status.Conditions[0]
	}
	none := next(nil)
	require.Equal(t, metav1.Condition{
		Type: "SelectorOverlap", Status: "False", Reason: "NoOverlap", Message: "No other NodeHealthCheck selects any of the nodes",
		ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(epoch.Add(time.Second)),
	}, none)
	require.Equal(t, none, next(map[string]int{}), "P3")

	begun := next(map[string]int{"b": 1})
	require.Equal(t, metav1.Condition{
		Type: "SelectorOverlap", Status: "True", Reason: "NodesSelectedTwice", Message: overlapMessage(map[string]int{"b": 1}),
		ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(epoch.Add(4 * time.Second)),
	}, begun)
	require.Equal(t, begun, next(map[string]int{"b": 1}), "P3")

	nhc.Generation = 4
	more := next(map[string]int{"b": 2})
	require.Equal(t, overlapMessage(map[string]int{"b": 2}), more.Message, "P4")
	require.EqualValues(t, 4, more.ObservedGeneration, "18.5")
	require.Equal(t, begun.LastTransitionTime, more.LastTransitionTime, "moves only on a flip")

	over := next(nil)
	require.Equal(t, metav1.ConditionFalse, over.Status, "P12")
	require.Equal(t, epoch.Add(9*time.Second), over.LastTransitionTime.Time)
}
