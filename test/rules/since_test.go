// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSince(t *testing.T) {
	const lag = 30 * time.Second
	seen := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ready := func(status corev1.ConditionStatus, since time.Duration) *corev1.NodeCondition {
		return &corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(seen.Add(since))}
	}
	at := func(earliest, latest time.Duration) span { return span{seen.Add(earliest), seen.Add(latest)} }
	for name, tc := range map[string]struct {
		before, now *corev1.NodeCondition
		want        span
	}{
		"an honest time":                                   {ready("True", -time.Hour), ready("False", -time.Second), at(-time.Second, -time.Second)},
		"nothing was seen before":                          {nil, ready("False", -time.Hour), at(-time.Hour, -time.Hour)},
		"a clock that is ahead":                            {ready("True", -time.Hour), ready("False", time.Hour), at(-observerLag, lag)},
		"a clock that has gone back":                       {ready("True", -time.Minute), ready("False", -time.Hour), at(-time.Hour, lag)},
		"a time that moves with each heartbeat":            {ready("False", -time.Hour), ready("False", -time.Second), at(-time.Hour, -time.Second)},
		"a time that moves back while the status does not": {ready("False", -time.Minute), ready("False", -time.Hour), at(-time.Hour, lag)},
		"nothing has changed":                              {ready("False", -time.Minute), ready("False", -time.Minute), at(-time.Minute, -time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			var before *Node
			if tc.before != nil {
				before = &Node{UID: "a", Conditions: []corev1.NodeCondition{*tc.before}}
				before.followConditions(nil, seen.Add(-time.Second), lag)
			}
			node := &Node{UID: "a", Conditions: []corev1.NodeCondition{*tc.now}}
			node.followConditions(before, seen, lag)
			require.Equal(t, tc.want, node.lasts(tc.now, 0))
			node.Created = seen.Add(time.Minute)
			require.Equal(t, at(time.Minute, time.Minute), node.lasts(tc.now, 0), "7.2 nothing lasts for longer than the Node")
		})
	}
}

// TestSeenAnew: to a process that has started since, a time that is ahead counts from its own beginning on (spec 7.2).
func TestSeenAnew(t *testing.T) {
	seen := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ since, started, latest time.Duration }{
		"an honest time":            {since: -time.Minute, started: time.Minute, latest: -time.Minute},
		"a time that is ahead":      {since: time.Hour, started: time.Minute, latest: time.Minute},
		"a time that is over":       {since: time.Minute, started: time.Hour, latest: time.Minute},
		"a process that was before": {since: time.Hour, started: -time.Minute, latest: 0},
	} {
		t.Run(name, func(t *testing.T) {
			ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(seen.Add(tc.since))}
			node := &Node{UID: "a", Conditions: []corev1.NodeCondition{ready}}
			node.followConditions(nil, seen, 0)
			node.seenAnew(seen.Add(tc.started), 0)
			require.Equal(t, seen.Add(tc.latest), node.lasts(&ready, 0).latest)
		})
	}
}
