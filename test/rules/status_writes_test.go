// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestStatusWrite has a status be written at second 100.
func TestStatusWrite(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	over := newCR("n", "Reboot", "one", marked)
	timedOut := func(cr *CR) v1alpha1.UnhealthyNode {
		e := entry("n", cr)
		e.Remediations[0].TimedOut = new(metav1.NewTime(epoch))
		return e
	}
	for name, tc := range map[string]struct {
		setup         func(s *fixture)
		before, after *NHC
		want          []string
	}{
		"9.2 the gate is open":       {notHealthy, healthCheck(storm(0, 0, false), stated()), healthCheck(storm(0, 0, true), stated()), []string{"9.2"}},
		"9.2 no node is unhealthy":   {healthy, healthCheck(storm(0, 0, false), minHealthy("2"), stated()), healthCheck(storm(0, 0, true), minHealthy("2"), stated()), []string{"9.2"}},
		"9.5 it is not calm":         {notHealthy, healthCheck(storm(0, 0, true), stated()), healthCheck(storm(0, 0, false), stated()), []string{"9.5"}},
		"9.5 it has not cooled down": {healthy, healthCheck(storm(0, 50*time.Second, true), calmSince(at(60)), stated()), healthCheck(storm(0, 50*time.Second, false), stated()), []string{"9.5"}},
		"13.5 not told":              {remediated(cr), healthCheck(escalating, stated(entry("n", cr))), healthCheck(escalating, stated(timedOut(cr))), []string{"13.5"}},
		"13.2 over no longer":        {remediated(over), healthCheck(escalating, stated(timedOut(over))), healthCheck(escalating, stated(entry("n", cr))), []string{"13.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			tc.setup(s)
			s.nhc(past, tc.before)
			s.nhc(at(100), tc.after)
			s.judgeStatusWrite(Change{Key: "nhc", ResourceVersion: s.rv, Time: at(100)}, tc.before, tc.after, request(100))
			require.Equal(t, tc.want, brokenRules(s.violations), "%v", s.violations)
		})
	}
}

// TestUnwrittenStorm begins a remediation at second 100. At second 50 the gate was closed, and the status was refused;
// since second 60 it is open again (spec 9.5).
func TestUnwrittenStorm(t *testing.T) {
	t.Parallel()
	write := func(seconds float64, code int32, process string) Request {
		return Request{Time: at(seconds), UserAgent: process, Verb: "update", Resource: NodeHealthChecks.Resource, Subresource: "status", Name: "nhc", Code: code}
	}
	refused := write(50, 403, "test/1")
	for name, tc := range map[string]struct {
		nhc      *NHC
		requests []Request
		want     []string
	}{
		"it goes on":                 {healthCheck(minHealthy("51%"), storm(0, 0, false)), []Request{refused}, []string{"9.5"}},
		"calm, a cooldown not begun": {healthCheck(minHealthy("51%"), storm(1, time.Minute, false)), []Request{refused}, []string{"9.5"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			for _, node := range []*Node{failedNode("n"), failedNode("m"), healthyNode("o"), healthyNode("p")} {
				s.node(past, node)
			}
			s.nhc(past, tc.nhc)
			s.changes = []instant{{epoch, s.rv}}
			s.node(at(60), healthyNode("m"))
			s.AddRequests(tc.requests...)
			w := window{nhc: "nhc", node: "n", known: at(97), nodeKnown: at(99), rv: s.next(), at: at(100), first: true}
			require.Equal(t, tc.want, broke([]finding{s.unwrittenStorm(w, request(100))}))
		})
	}
}
