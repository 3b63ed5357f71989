// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestLeaseRenewal: a lease is renewed when, and only when, it is time (spec 14.5, P3).
func TestLeaseRenewal(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) metav1.MicroTime { return microTime(time.Now().Add(-d).Truncate(time.Second)) }
	tests := map[string]struct {
		change func() map[string]any
		// renewed and anew are what becomes of renewTime and of acquireTime.
		renewed, anew bool
		duration      time.Duration
	}{
		"a-minute-and-a-half-old": {change: func() map[string]any { return map[string]any{"renewTime": ago(90 * time.Second)} }, renewed: true},
		"expired":                 {change: func() map[string]any { return map[string]any{"renewTime": ago(time.Hour)} }, renewed: true},
		"short":                   {change: func() map[string]any { return map[string]any{"leaseDurationSeconds": 10} }, renewed: true},
		"half-a-minute-old":       {change: func() map[string]any { return map[string]any{"renewTime": ago(30 * time.Second)} }},
		"ends-later": {
			change:   func() map[string]any { return map[string]any{"leaseDurationSeconds": 7200} },
			duration: 2 * time.Hour,
		},
		"without-renewTime":   {change: func() map[string]any { return map[string]any{"renewTime": nil} }, renewed: true, anew: true},
		"without-duration":    {change: func() map[string]any { return map[string]any{"leaseDurationSeconds": nil} }, renewed: true, anew: true},
		"without-acquireTime": {change: func() map[string]any { return map[string]any{"acquireTime": nil} }, anew: true},
	}
	for name, tc := range tests {
		t.Run("14.5-"+name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			s.createNodes("a")
			s.createNHC()
			s.fail("a")
			cr := s.eventuallyCR("a")
			change := tc.change()
			if _, changes := change["acquireTime"]; !changes {
				change["acquireTime"] = ago(5 * time.Minute)
			}
			change["leaseTransitions"] = 7
			old := s.patchNodeLeaseSpec("a", change)
			lease := old
			if tc.renewed || tc.anew {
				lease = s.eventuallyNodeLease("a", old)
			}
			s.catchUp()
			require.Equal(t, lease.ResourceVersion, s.nodeLease("a").ResourceVersion, "P3: once")
			duration, transitions := 660*time.Second, int32(7)
			if tc.duration > 0 {
				duration = tc.duration
			}
			if tc.anew {
				transitions = 8
			}
			s.requireLease(lease, "a", duration, transitions)
			if tc.anew {
				require.True(t, old.Spec.AcquireTime == nil || lease.Spec.AcquireTime.After(old.Spec.AcquireTime.Time))
			} else {
				require.Equal(t, old.Spec.AcquireTime, lease.Spec.AcquireTime, "14.5: acquireTime stays")
			}
			if tc.renewed {
				require.True(t, old.Spec.RenewTime == nil || !lease.Spec.RenewTime.Before(old.Spec.RenewTime))
			} else {
				require.Equal(t, old.Spec.RenewTime, lease.Spec.RenewTime)
			}
			require.Equal(t, cr.GetResourceVersion(), s.cr("a").GetResourceVersion(), "11.2")
		})
	}
	for name, state := range map[string]func(s *scenario){
		"paused":     func(s *scenario) { s.updateNHC(pause("test")) },
		"unselected": func(s *scenario) { s.labelNode("a", map[string]any{scenarioLabel: "other"}) },
		"excluded":   func(s *scenario) { s.labelNode("a", map[string]any{v1alpha1.LabelExclude: "true"}) },
		"delayed": func(s *scenario) {
			s.updateNHC(healthyDelay(-time.Second))
			s.heal("a")
			s.eventually("healthyDelayed", func() bool { return s.entry("a").HealthyDelayed != nil })
		},
		"disabled": func(s *scenario) {
			s.deleteTemplate()
			s.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
		},
	} {
		t.Run("5.2-"+name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			s.createNodes("a")
			s.createNHC()
			s.fail("a")
			s.eventuallyCR("a")
			state(s)
			old := s.patchNodeLeaseSpec("a", map[string]any{"renewTime": ago(2 * time.Minute)})
			lease := s.eventuallyNodeLease("a", old)
			s.requireLease(lease, "a", 660*time.Second, 0)
			require.Equal(t, old.Spec.AcquireTime, lease.Spec.AcquireTime)
		})
	}
}

// TestLeaseAcrossSteps: the steps of a node share its lease (spec 14.5, 14.6, 13.6).
func TestLeaseAcrossSteps(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 3)
	l.createNodes("a")
	l.createNHC(l.escalation(2*time.Minute, 20*time.Minute, time.Minute))
	l.fail("a")
	l.eventuallyStep("a", 0)
	first := l.nodeLease("a")
	l.requireLease(first, "a", 180*time.Second, 0)
	// So that it can be told from now.
	first = l.patchNodeLeaseSpec("a", map[string]any{"acquireTime": microTime(time.Now().Add(-31 * time.Minute).Truncate(time.Second))})
	l.catchUp()
	l.requireFirstStep("a")
	require.Equal(t, first.ResourceVersion, l.nodeLease("a").ResourceVersion, "14.7: escalating steps end by their own timeout only")

	l.reportFailure("a")
	l.eventuallyStep("a", 1)
	second := l.nodeLease("a")
	l.requireLease(second, "a", 1260*time.Second, 0)
	require.Equal(t, first.UID, second.UID)
	require.Equal(t, first.Spec.AcquireTime, second.Spec.AcquireTime, "14.6")

	l.rungs[1].reportFailure("a")
	l.eventuallyStep("a", 2)
	require.Equal(t, second.ResourceVersion, l.nodeLease("a").ResourceVersion, "14.5: the end never moves to an earlier time")

	l.rungs[2].reportFailure("a")
	l.eventuallyExhausted("a")
	old := l.patchNodeLeaseSpec("a", map[string]any{"renewTime": microTime(time.Now().Add(-time.Hour))})
	l.catchUp()
	require.Equal(t, old.ResourceVersion, l.nodeLease("a").ResourceVersion, "13.6: not renewed any more")
	l.rungs[2].setFinalizers("a", rungFinalizer)
	l.heal("a")
	l.eventuallyNoCR("a")
	l.eventually("only the last CR is left", func() bool { return len(l.entry("a").Remediations) == 1 })
	require.Equal(t, old.ResourceVersion, l.nodeLease("a").ResourceVersion, "13.6, 14.9")
	l.rungs[2].setFinalizers("a")
	l.eventuallyNoNodeLease("a")
	l.eventuallyCounts(1, 1)
}
