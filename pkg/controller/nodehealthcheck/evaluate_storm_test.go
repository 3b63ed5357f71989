// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// TestSettleStorm: a storm begins with the CRs that reach the maximum (spec 9.2). Of five
// nodes two may be unhealthy, two are, and one had its CR before.
func TestSettleStorm(t *testing.T) {
	t.Parallel()
	first := testCR("a", "1")
	tests := map[string]struct {
		before health.Storm
		parts  []part
		want   health.Storm
	}{
		"9.2 the other one gets its first CR":      {parts: []part{sick("a", own(first)), sick("b", created(testCR("b", "2")))}, want: health.Storm{Active: true, Since: epoch}},
		"9.2 it gets none":                         {parts: []part{sick("a", own(first)), sick("b")}},
		"9.2 a next step is no other node":         {parts: []part{sick("a", own(first), created(testCR("a", "3"))), sick("b")}},
		"9.2 a CR that is there is counted before": {parts: []part{sick("a", own(first)), sick("b", own(testCR("b", "2")))}},
		"9.2 one that has begun goes on":           {before: health.Storm{Active: true, Since: epoch.Add(-time.Minute)}, parts: []part{sick("a", own(first)), sick("b")}, want: health.Storm{Active: true, Since: epoch.Add(-time.Minute)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, stormy(new(int32(1)), nil))
			s.observe = func(w *observed) {
				w.gate = health.Gate{Open: true, Observed: 5, Healthy: 3, Required: 3}
				w.summary.Unhealthy, w.summary.Remediated, w.storm = 2, 1, tc.before
			}
			r := s.result(tc.parts...)
			r.settleStorm(r.snapshot, r.results, epoch.Add(300*time.Millisecond))
			require.Equal(t, tc.want, r.storm)
			require.Equal(t, tc.want, r.policy.Context.Storm, "and so says the decision")
		})
	}
}

// TestCounts: status has the numbers of the fleet.
func TestCounts(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.observe = func(w *observed) { w.summary.Observed, w.summary.Healthy, w.summary.SoonUnhealthy = 9, 5, 2 }
	status := s.result(sick("a", own(testCR("a", "1"))), sick("b", refused(v1alpha1.DecidedPaused))).Status
	require.EqualValues(t, 9, *status.ObservedNodes, "7.1")
	require.EqualValues(t, 5, *status.HealthyNodes, "7.6")
	require.EqualValues(t, 2, *status.SoonUnhealthyNodes)
	require.EqualValues(t, 1, *status.RemediatingNodes)
}
