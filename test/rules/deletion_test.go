// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func healthyDelay(d time.Duration) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.HealthyDelay = &metav1.Duration{Duration: d} }
}

// TestDeletion deletes the CR of node "n" at second 100.
func TestDeletion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		setup func(s *fixture)
		want  []string
	}{
		"16.1 healthy":       {func(s *fixture) { s.node(past, healthyNode("n")); s.nhc(past, healthCheck()) }, nil},
		"16.1 not healthy":   {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck()) }, []string{"16.1"}},
		"7.5 soon unhealthy": {func(s *fixture) { s.node(past, newNode("n", "False", at(1000))); s.nhc(past, healthCheck()) }, []string{"16.1"}},
		"16.7 healthy by the cache only": {func(s *fixture) {
			s.node(past, healthyNode("n"))
			s.node(at(99), failedNode("n"))
			s.nhc(past, healthCheck())
		}, []string{"16.1"}},
		"16.7 no live look": {func(s *fixture) {
			s.node(past, healthyNode("n"))
			s.nhc(past, healthCheck())
			s.SetRequests(nil)
		}, []string{"16.7"}},
		"16.4 delay is not over": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.node(at(50), healthyNode("n"))
			s.nhc(past, healthCheck(healthyDelay(time.Minute)))
		}, []string{"16.4"}},
		"16.4 interrupted": {func(s *fixture) {
			s.node(past, healthyNode("n"))
			s.node(at(70), failedNode("n"))
			s.node(at(71), healthyNode("n"))
			s.nhc(past, healthCheck(healthyDelay(time.Minute)))
		}, []string{"16.4"}},
		"16.4 never": {func(s *fixture) { s.node(past, healthyNode("n")); s.nhc(past, healthCheck(healthyDelay(-1))) }, []string{"16.4"}},
		"17.3 its replacement is awaited": {func(s *fixture) {
			s.noNode(past, "n")
			s.nhc(past, healthCheck())
			s.cr(past, newCR("n", "Reboot", "one", func(cr *CR) { cr.Permanent = "True" }))
		}, []string{"17.3"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.SetRequests([]Request{{Time: at(99.5), Verb: "get", Resource: "nodes", Name: "n", Code: 404}})
			tc.setup(s)
			cr := newCR("n", "Reboot", "one")
			if len(s.crs) == 0 {
				s.cr(past, cr)
			}
			s.noCR(at(100.1), cr)
			s.judgeDeletion(Change{Resource: schema.GroupVersionResource{Resource: "Reboot"}, Key: "ns/" + cr.Name, ResourceVersion: s.rv, Time: at(100.1)}, cr, request(100))
			require.Equal(t, tc.want, brokenRules(s.violations))
		})
	}
}

func brokenRules(violations []Violation) []string {
	var rules []string
	for _, violation := range violations {
		rules = append(rules, violation.Rule)
	}
	return rules
}

func TestTakenOver(t *testing.T) {
	t.Parallel()
	ours := newLease("n", "NodeHealthCheck-a", at(100), time.Hour)
	tests := map[string]struct {
		before, after *coordinationv1.Lease
		broken        bool
	}{
		"14.3 a valid one":          {newLease("n", "other", at(90), time.Minute), ours, true},
		"14.3 of another one of us": {newLease("n", "NodeHealthCheck-b", at(90), time.Minute), ours, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.broken, takenOver(tc.before, tc.after, at(100)).text != "")
		})
	}
}

// TestConfirmation removes the confirmation of node "n" at second 100.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	confirmed := annotated(v1alpha1.AnnotationManuallyConfirmedHealthy)
	tests := map[string]struct {
		before, after *Node
		setup         func(s *fixture)
		broken        bool
	}{
		"16.6 not healthy":  {failedNode("n", confirmed), failedNode("n"), func(*fixture) {}, true},
		"16.6 a CR is left": {healthyNode("n", confirmed), healthyNode("n"), func(s *fixture) { s.cr(past, newCR("n", "Reboot", "one")) }, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.nhc(past, healthCheck())
			s.node(past, tc.before)
			tc.setup(s)
			s.node(at(100), tc.after)
			found := s.confirmationRemoved(tc.before, tc.after, Change{Key: "n", ResourceVersion: s.rv, Time: at(100)}, request(100))
			require.Equal(t, tc.broken, found.text != "", found.text)
		})
	}
}

// TestMark tells the remediator of node "n" to stop at second 100.
func TestMark(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		setup  func(s *fixture)
		before *CR
		want   []string
	}{
		"13.3 too early":     {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck(escalating)) }, newCR("n", "Reboot", "one", func(cr *CR) { cr.Created = at(60) }), []string{"13.3"}},
		"11.4 a foreign one": {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck(escalating)) }, newCR("n", "Reboot", "one", func(cr *CR) { cr.Succeeded, cr.Owners = "False", nil }), []string{"11.4", "4.8"}},
		"14.7 not overdue":   {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck()) }, newCR("n", "Reboot", "one", func(cr *CR) { cr.Created = at(60) }), []string{"13.3"}},
		"13.8 succeeded":     {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck(escalating)) }, newCR("n", "Reboot", "one", func(cr *CR) { cr.Succeeded = "True" }), []string{"13.8"}},
		"5.3 paused":         {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck(escalating, paused)) }, newCR("n", "Reboot", "one", func(cr *CR) { cr.Succeeded = "False" }), []string{"10.1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			tc.setup(s)
			event := Change{Resource: schema.GroupVersionResource{Resource: "reboots"}, Key: "ns/" + tc.before.Name, Time: at(100)}
			id := "reboots " + event.Key
			s.addCR(id, s.next(), past, tc.before)
			after := *tc.before
			after.Marked, after.TimedOut = true, "2026-01-01T00:01:40Z"
			event.ResourceVersion = s.next()
			s.addCR(id, event.ResourceVersion, at(100), &after)
			s.judgeMark(event, tc.before, &after, request(100))
			require.Equal(t, tc.want, brokenRules(s.violations), "%v", s.violations)
		})
	}
}
