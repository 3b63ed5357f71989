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
