// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestCreation creates a CR for node "n" at second 100.
func TestCreation(t *testing.T) {
	t.Parallel()
	world := func(s *scene) {
		s.node(past, failed("n"))
		s.nhc(past, check(escalating))
		s.lease(past, newLease("n", "NodeHealthCheck-nhc", at(99), time.Hour))
	}
	first := newCR("n", "Reboot", "one", func(cr *CR) { cr.UID = "new" })
	tests := map[string]struct {
		play    func(s *scene)
		created *CR
		want    []string
	}{
		"the first step":             {world, first, nil},
		"13.1 the second step first": {world, newCR("n", "Reboot", "two"), []string{"13.1", "13.2"}},
		"13.1 of no step":            {world, newCR("n", "Reboot", "unknown"), []string{"13.1"}},
		"13.2 the next step after a failure": {func(s *scene) {
			world(s)
			s.cr(past, newCR("n", "Reboot", "one", func(cr *CR) { cr.Succeeded = "False" }))
		}, newCR("n", "Reboot", "two"), nil},
		"13.2 the next step after a mark": {func(s *scene) {
			world(s)
			s.cr(past, newCR("n", "Reboot", "one"))
			s.cr(at(99), newCR("n", "Reboot", "one", marked))
		}, newCR("n", "Reboot", "two"), nil},
		"13.2 the next step too early": {func(s *scene) { world(s); s.cr(past, newCR("n", "Reboot", "one")) }, newCR("n", "Reboot", "two"), []string{"13.2"}},
		"13.2 a step is skipped": {func(s *scene) {
			world(s)
			s.cr(past, newCR("n", "Reboot", "one", marked))
		}, newCR("n", "Rebuild", "three"), []string{"13.2"}},
		"13.4 succeeded and time is up": {func(s *scene) {
			world(s)
			s.cr(past, newCR("n", "Reboot", "one", func(cr *CR) { cr.Succeeded, cr.Created = "True", at(30) }))
		}, newCR("n", "Reboot", "two"), nil},
		"13.2 back to the first step": {func(s *scene) { world(s); s.cr(past, newCR("n", "Reboot", "two", marked)) }, first, []string{"13.2"}},
		"P9 twice": {func(s *scene) {
			world(s)
			s.cr(at(99.9), newCR("n", "Reboot", "one", func(cr *CR) { cr.Name += "x" }))
		}, first, []string{"P9"}},
		"P9 the old one is going": {func(s *scene) { world(s); s.cr(past, newCR("n", "Reboot", "two", deleting)) }, first, []string{"P9"}},
		"P9 it was going until now": {func(s *scene) {
			world(s)
			s.cr(past, newCR("n", "Reboot", "two", deleting))
			s.noCR(at(99.9), newCR("n", "Reboot", "two"))
		}, first, nil},
		"11.4 a foreign one for the template":     {func(s *scene) { world(s); s.cr(past, newCR("n", "Reboot", "one", foreign)) }, first, []string{"11.4"}},
		"11.4 a foreign one comes too late":       {func(s *scene) { world(s); s.cr(at(99), newCR("n", "Reboot", "one", foreign)) }, first, nil},
		"11.4 a foreign one for another template": {func(s *scene) { world(s); s.cr(past, newCR("n", "Reboot", "other", foreign)) }, first, nil},
		"14.2 no lease": {func(s *scene) { s.node(past, failed("n")); s.nhc(past, check()) }, first, []string{"14.2"}},
		"14.2 a foreign lease": {func(s *scene) {
			s.node(past, failed("n"))
			s.nhc(past, check())
			s.lease(past, newLease("n", "other", at(99), time.Hour))
		}, first, []string{"14.2"}},
		"14.2 the lease is lost meanwhile": {func(s *scene) { world(s); s.lease(at(99.9), newLease("n", "other", at(99), time.Hour)) }, first, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			tc.play(s)
			s.cr(at(100), tc.created)
			event := change{resource: schema.GroupVersionResource{Resource: "reboots"}, key: tc.created.Name, rv: s.rv, seen: at(100)}
			s.judgeCreation(event, tc.created)
			var rules []string
			for _, violation := range s.violations {
				rules = append(rules, violation.Rule)
			}
			require.Equal(t, tc.want, rules, "%v", s.violations)
		})
	}
}

// TestPlace creates a CR for control plane node "n" at second 100.
func TestPlace(t *testing.T) {
	t.Parallel()
	other := newCR("m", "Rebuild", "x", func(cr *CR) { cr.ControlPlane, cr.Owners = true, []string{"other"} })
	tests := map[string]struct {
		play func(s *scene)
		want bool // It is broken.
	}{
		"free":                             {func(*scene) {}, false},
		"taken":                            {func(s *scene) { s.cr(past, other) }, true},
		"taken a moment ago, by ourselves": {func(s *scene) { s.cr(at(99.999), other) }, true},
		"taken without label":              {func(s *scene) { s.cr(past, newCR("m", "Reboot", "x")) }, true},
		"of another kind":                  {func(s *scene) { s.cr(past, newCR("m", "Unknown", "x")) }, false},
		"going, the Node exists":           {func(s *scene) { s.cr(past, newCR("m", "Reboot", "x", deleting)) }, true},
		"going, the Node is gone":          {func(s *scene) { s.cr(past, newCR("m", "Reboot", "x", deleting)); s.noNode(at(50), "m") }, false},
		"going, labelled, the Node is gone": {func(s *scene) {
			s.cr(past, newCR("m", "Reboot", "x", deleting, func(cr *CR) { cr.ControlPlane = true }))
			s.noNode(at(50), "m")
		}, true},
		"by somebody else, a moment ago":      {func(s *scene) { s.cr(at(99.9), newCR("m", "Reboot", "x", foreign)) }, false},
		"by somebody else, for long":          {func(s *scene) { s.cr(past, newCR("m", "Reboot", "x", foreign)) }, true},
		"given back":                          {func(s *scene) { s.cr(past, newCR("m", "Reboot", "x")); s.noCR(at(99), newCR("m", "Reboot", "x")) }, false},
		"of the control plane a moment later": {func(s *scene) { s.node(at(99.9), failed("n")); s.cr(past, newCR("m", "Reboot", "x")) }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			s.nhc(past, check(escalating))
			s.node(past, failed("n", controlPlane))
			s.node(past, failed("m", controlPlane))
			tc.play(s)
			created := newCR("n", "Reboot", "one")
			s.cr(at(100), created)
			w := window{nhc: "nhc", node: "n", sees: at(97), looked: at(99), rv: s.rv, at: at(100), first: true}
			require.Equal(t, tc.want, s.placeFree(w, s.rv-1).text != "")
		})
	}
}

// TestQuorum creates a CR for control plane node "n" at second 100.
func TestQuorum(t *testing.T) {
	t.Parallel()
	ready := func(n *Node) { n.Conditions[0].Status = "True" }
	for name, tc := range map[string]struct {
		node, others []func(*Node)
		want         bool // It is broken.
	}{
		"it is not Ready":        {node: []func(*Node){controlPlane}},
		"two others are Ready":   {node: []func(*Node){controlPlane, ready}, others: []func(*Node){ready, ready}},
		"one other is Ready":     {node: []func(*Node){controlPlane, ready}, others: []func(*Node){ready, func(*Node) {}}, want: true},
		"it is the only one":     {node: []func(*Node){controlPlane, ready}, want: true},
		"it is no member at all": {node: []func(*Node){ready}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			s.node(past, failed("n", tc.node...))
			for i, other := range tc.others {
				s.node(past, failed(fmt.Sprint("m", i), controlPlane, other))
			}
			s.cr(at(100), newCR("n", "Reboot", "one"))
			w := window{nhc: "nhc", node: "n", sees: at(97), looked: at(99), rv: s.rv, at: at(100), first: true}
			require.Equal(t, tc.want, s.quorum(w).text != "")
		})
	}
}

// TestCreationWindow: the lease says when the sync began, the audit log when the node was
// looked at, and when the request arrived.
func TestCreationWindow(t *testing.T) {
	t.Parallel()
	s := newScene()
	s.node(past, failed("n"))
	s.nhc(past, check())
	s.lease(at(98), newLease("n", "NodeHealthCheck-nhc", at(97), time.Hour))
	cr := newCR("n", "Reboot", "one")
	s.cr(at(100), cr)
	event := change{resource: schema.GroupVersionResource{Resource: "reboots"}, rv: s.rv, seen: at(100)}

	w := s.creationWindow(event, cr)
	require.Equal(t, at(97-2), w.sees, "what was visible when the sync began")
	require.Equal(t, at(100), w.at)
	require.Equal(t, at(98), w.looked, "without an audit log: Look before the request, itself Look before it was seen")

	s.audit = newAudit([]localkube.Request{
		{Time: at(90), Verb: "get", Resource: "nodes", Name: "n", Code: 200},
		{Time: at(98.5), Verb: "get", Resource: "nodes", Name: "n", Code: 200},
		{Time: at(98.6), Verb: "get", Resource: "nodes", Name: "n", Code: 500},
		{Time: at(98.7), Verb: "get", Resource: "nodes", Name: "m", Code: 200},
		{Time: at(99), Verb: "create", Resource: "reboots", Namespace: "ns", Name: cr.Name, Code: 201},
		{Time: at(99.5), Verb: "get", Resource: "nodes", Name: "n", Code: 200},
	})
	w = s.creationWindow(event, cr)
	require.Equal(t, at(99), w.at)
	require.Equal(t, at(98.5), w.looked)
}
