// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object returns one with these fields.
func object(fields map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: fields}
}

func spec(how string) map[string]any { return map[string]any{"spec": map[string]any{"how": how}} }

// TestOnlyMarked judges writes of the controller.
func TestOnlyMarked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after map[string]any
		broken        bool
	}{
		"nothing":                {spec("x"), spec("x"), false},
		"11.2 the spec":          {spec("x"), spec("y"), true},
		"11.2 the spec, emptied": {spec("x"), map[string]any{}, true},
		"11.2 the status":        {spec("x"), map[string]any{"spec": map[string]any{"how": "x"}, "status": "?"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.broken, onlyMarked(object(tc.before), object(tc.after)).text != "")
		})
	}
}

// TestMarkedAgain changes the annotation at second 100.
func TestMarkedAgain(t *testing.T) {
	t.Parallel()
	since := func(seconds float64) func(*CR) {
		return func(cr *CR) { cr.Deleting, cr.DeletedAt = true, at(seconds) }
	}
	later := func(cr *CR) { cr.TimedOut = "2026-01-01T00:01:40Z" }
	created := func(seconds float64) func(*Node) { return func(n *Node) { n.Created = at(seconds) } }
	for name, tc := range map[string]struct {
		before, after *CR
		node          *Node
		broken        bool
	}{
		"13.8 changed":                 {newCR("n", "Reboot", "one", marked), newCR("n", "Reboot", "one", marked, later), nil, true},
		"13.8 removed":                 {newCR("n", "Reboot", "one", marked), newCR("n", "Reboot", "one"), nil, true},
		"13.8 again, the Node is gone": {newCR("n", "Reboot", "one", marked, since(30)), newCR("n", "Reboot", "one", marked, since(30), later), nil, true},
		"13.8 again, too early":        {newCR("n", "Reboot", "one", marked, since(50)), newCR("n", "Reboot", "one", marked, since(50), later), failedNode("n", created(35)), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			if tc.node != nil {
				s.node(past, tc.node)
			}
			require.Equal(t, tc.broken, s.markedAgain(Change{Time: at(100), ResourceVersion: s.next()}, tc.before, tc.after).text != "")
		})
	}
}

func TestStatusWrites(t *testing.T) {
	t.Parallel()
	status := func(healthy, updated string) *unstructured.Unstructured {
		return object(map[string]any{"status": map[string]any{"healthyNodes": healthy, "lastUpdateTime": updated}})
	}
	require.Empty(t, statusIsNews(status("1", "a"), status("2", "b")).text)
	require.NotEmpty(t, statusIsNews(status("1", "a"), status("1", "b")).text, "18.2")

	withStatus := object(map[string]any{"spec": map[string]any{"how": "x"}, "status": map[string]any{"phase": "Enabled"}})
	require.Empty(t, onlyStatus(object(spec("x")), withStatus).text)
	require.NotEmpty(t, onlyStatus(object(spec("x")), object(spec("y"))).text, "22.3")
}

func TestLateWrites(t *testing.T) {
	t.Parallel()
	writer := func(request Request) string { return request.UserAgent }
	tenures := []Tenure{
		{Leader: "a", Taken: at(0), Until: at(20), Lost: at(25)},
		{Leader: "b", Taken: at(25), Until: at(90)},
	}
	wrote := func(who string, seconds ...float64) []Request {
		var requests []Request
		for _, second := range seconds {
			requests = append(requests, Request{UserAgent: who, Time: at(second), Verb: "create", Resource: "reboots"})
		}
		return requests
	}
	workers := 1
	late := func(requests []Request) int { return len(LateWrites(requests, tenures, workers, writer)) }
	require.Zero(t, late(wrote("a", 10, 20)))
	require.Zero(t, late(wrote("", 10)), "a read, say")
	require.Zero(t, late(wrote("b", 50)))
	require.Equal(t, 1, late(wrote("b", 24)), "before it acquired the lease")
	require.Zero(t, late(wrote("a", 21)), "a process that was stopped right before the system call")
	require.Equal(t, 1, late(wrote("a", 21, 22)), "the lease has ended, though no other process has taken it")
	require.Equal(t, 1, late(wrote("a", 30, 31)), "b leads")
	require.Equal(t, 2, late(append(wrote("a", 30, 31), wrote("b", 91, 92)...)), "one is excused for each process")
	require.Equal(t, 1, late(wrote("c", 10)), "it never led")

	tenures[1].Lost = at(60)
	require.Equal(t, 1, late(wrote("b", 59, 61, 62)), "it has released the lease")

	workers = 2
	require.Zero(t, late(wrote("a", 21, 22)), "two workers were stopped there")
	require.Equal(t, 1, late(wrote("a", 21, 22, 23)), "one of them has gone on")
}
