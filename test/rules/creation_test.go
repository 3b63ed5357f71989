// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestCreation creates a CR for node "n" at second 100.
func TestCreation(t *testing.T) {
	t.Parallel()
	base := func(s *fixture) {
		s.node(past, failedNode("n"))
		s.nhc(past, healthCheck(escalating))
		s.lease(past, newLease("n", "NodeHealthCheck-nhc", at(99), time.Hour))
	}
	first := newCR("n", "Reboot", "one", func(cr *CR) { cr.UID = "new" })
	tests := map[string]struct {
		setup   func(s *fixture)
		created *CR
		want    []string
	}{
		"the first step":             {base, first, nil},
		"13.1 the second step first": {base, newCR("n", "Reboot", "two"), []string{"13.1", "13.2"}},
		"13.1 of no step":            {base, newCR("n", "Reboot", "unknown"), []string{"13.1"}},
		"13.3 a failure, not told": {func(s *fixture) {
			base(s)
			s.cr(past, newCR("n", "Reboot", "one", func(cr *CR) { cr.Succeeded = "False" }))
		}, newCR("n", "Reboot", "two"), []string{"13.3"}},
		"13.2 the next step too early": {func(s *fixture) { base(s); s.cr(past, newCR("n", "Reboot", "one")) }, newCR("n", "Reboot", "two"), []string{"13.2", "13.3"}},
		"13.2 a step is skipped": {func(s *fixture) {
			base(s)
			s.cr(past, newCR("n", "Reboot", "one", marked))
		}, newCR("n", "Rebuild", "three"), []string{"13.2"}},
		"13.2 back to the first step": {func(s *fixture) { base(s); s.cr(past, newCR("n", "Reboot", "two", marked)) }, first, []string{"13.2"}},
		"P9 twice": {func(s *fixture) {
			base(s)
			s.cr(at(99.9), newCR("n", "Reboot", "one", func(cr *CR) { cr.Name += "x" }))
		}, first, []string{"P9"}},
		"P9 the old one is being deleted":     {func(s *fixture) { base(s); s.cr(past, newCR("n", "Reboot", "two", deleting)) }, first, []string{"P9"}},
		"P9 a stranger is at work":            {func(s *fixture) { base(s); s.cr(past, newCR("n", "Reboot", "unknown")) }, first, []string{"P9"}},
		"11.4 a foreign one for the template": {func(s *fixture) { base(s); s.cr(past, newCR("n", "Reboot", "one", foreign)) }, first, []string{"11.4"}},
		"14.2 no lease":                       {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck()) }, first, []string{"14.2"}},
		"14.2 a foreign lease": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.nhc(past, healthCheck())
			s.lease(past, newLease("n", "other", at(99), time.Hour))
		}, first, []string{"14.2"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			tc.setup(s)
			s.cr(at(100), tc.created)
			s.SetRequests([]Request{{Time: at(99.5), Verb: "get", Resource: "nodes", Name: "n", Code: 200}})
			event := Change{Resource: schema.GroupVersionResource{Resource: "reboots"}, Key: tc.created.Name, ResourceVersion: s.rv, Time: at(100), Object: objectOf(tc.created)}
			s.judgeCreation(event, tc.created, request(100))
			var rules []string
			for _, violation := range s.violations {
				rules = append(rules, violation.Rule)
			}
			require.Equal(t, tc.want, rules, "%v", s.violations)
		})
	}
}

// TestControlPlaneSlot creates a CR for control plane node "n" at second 100.
func TestControlPlaneSlot(t *testing.T) {
	t.Parallel()
	other := newCR("m", "Rebuild", "x", func(cr *CR) { cr.ControlPlane, cr.Owners = true, []string{"other"} })
	tests := map[string]struct {
		setup func(s *fixture)
		want  bool // It is broken.
	}{
		"taken":                            {func(s *fixture) { s.cr(past, other) }, true},
		"taken a moment ago, by ourselves": {func(s *fixture) { s.cr(at(99.999), other) }, true},
		"taken without label":              {func(s *fixture) { s.cr(past, newCR("m", "Reboot", "x")) }, true},
		"of a kind no spec names any more": {func(s *fixture) { s.cr(past, newCR("m", "Unknown", "x")) }, true},
		"being deleted, the Node exists":   {func(s *fixture) { s.cr(past, newCR("m", "Reboot", "x", deleting)) }, true},
		"being deleted, labelled, the Node is gone": {func(s *fixture) {
			s.cr(past, newCR("m", "Reboot", "x", deleting, func(cr *CR) { cr.ControlPlane = true }))
			s.noNode(at(50), "m")
		}, true},
		"by another client, for long": {func(s *fixture) { s.cr(past, newCR("m", "Reboot", "x", foreign)) }, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.nhc(past, healthCheck(escalating))
			s.node(past, failedNode("n", controlPlane))
			s.node(past, failedNode("m", controlPlane))
			tc.setup(s)
			created := newCR("n", "Reboot", "one")
			s.cr(at(100), created)
			w := window{nhc: "nhc", node: "n", known: at(97), nodeKnown: at(99), rv: s.rv, at: at(100), first: true}
			require.Equal(t, tc.want, s.slotFree(w, s.rv-1).text != "")
		})
	}
}

// TestQuorum creates a CR for control plane node "n" at second 100.
func TestQuorum(t *testing.T) {
	t.Parallel()
	ready := func(n *Node) { n.Conditions[0].Status = "True" }
	etcd := labelled("node-role.kubernetes.io/etcd", "")
	with := func(changes ...func(*Node)) func(*Node) {
		return func(n *Node) {
			for _, change := range changes {
				change(n)
			}
		}
	}
	for name, tc := range map[string]struct {
		node, others []func(*Node)
		want         bool // It is broken.
	}{
		"it is not Ready, nor is another": {node: []func(*Node){controlPlane}, others: []func(*Node){ready, func(*Node) {}}, want: true},
		"one other is Ready":              {node: []func(*Node){controlPlane, ready}, others: []func(*Node){ready, func(*Node) {}}, want: true},
		"it is the only one":              {node: []func(*Node){controlPlane, ready}, want: true},
		"one other member of etcd is Ready, and two others of the control plane": {
			node: []func(*Node){etcd, ready}, others: []func(*Node){with(etcd, ready), etcd, ready, ready}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.node(past, failedNode("n", tc.node...))
			for i, other := range tc.others {
				s.node(past, failedNode(fmt.Sprint("m", i), controlPlane, other))
			}
			s.cr(at(100), newCR("n", "Reboot", "one"))
			w := window{nhc: "nhc", node: "n", known: at(97), nodeKnown: at(99), rv: s.rv, at: at(100), first: true}
			require.Equal(t, tc.want, s.quorum(w).text != "")
		})
	}
}
