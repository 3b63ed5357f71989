// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

func TestLate(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	h := newHistory()
	h.failures["a"] = []time.Time{at(0), at(1000), at(3000), at(3100)}
	h.recoveries["a"] = []time.Time{at(500), at(1500), at(3200)}
	for name, tc := range map[string]struct {
		created int
		late    bool
	}{
		"before everything":          {-10, false},
		"while it fails":             {100, false},
		"hardly visible":             {550, false},
		"long visible":               {551, true},
		"the next failure was sent":  {1001, false},
		"after the second recovery":  {1549, false},
		"long after that":            {2000, true},
		"the recovery was seen late": {3300, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			late := h.late([]localkube.Request{{Name: "a", Time: at(tc.created)}, {Name: "b", Time: at(tc.created)}})
			if !tc.late {
				require.Empty(t, late)
				return
			}
			require.Len(t, late, 1)
			require.Equal(t, "a", late[0].Node)
		})
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	read := func(node string, ms int) localkube.Request {
		at := begin.Add(time.Duration(ms) * time.Millisecond)
		return localkube.Request{Verb: "get", Resource: "nodes", Name: node, Time: at, Answered: at.Add(300 * time.Millisecond)}
	}
	late := []lateCreation{{at: begin.Add(time.Second), Node: "a"}, {at: begin.Add(time.Second), Node: "c"}}
	addReads(late, []localkube.Request{read("a", 100), read("a", 600), read("b", 900), read("a", 1100)})
	require.InDelta(t, 400, late[0].SinceRead, 0)
	require.InDelta(t, 100, late[0].SinceAnswer, 0)
	require.Zero(t, late[1].SinceRead)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	h := newHistory()
	const up, down = corev1.ConditionTrue, corev1.ConditionFalse
	node := func(ready corev1.ConditionStatus) *corev1.Node {
		n := newNode("a", groupMeasured, 0, time.Now())
		n.Status.Conditions = []corev1.NodeCondition{readyCondition(ready, time.Now(), time.Now())}
		return n
	}
	for _, ready := range []corev1.ConditionStatus{down, down, up, up, down} {
		h.saw(node(ready))
	}
	require.Equal(t, 3, h.flips, "a heartbeat is no flip")
	require.Len(t, h.recoveries["a"], 1)
}
