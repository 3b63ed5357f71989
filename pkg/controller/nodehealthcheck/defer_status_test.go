// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestDeferStatus is when a status may wait, because it was written a moment ago and there is
// more to do.
func TestDeferStatus(t *testing.T) {
	t.Parallel()
	acts := func(p *part) { p.plan.Actions = []remediation.Action{remediation.WriteLease{}} }
	now := epoch.Add(-time.Millisecond)
	tests := map[string]struct {
		last  time.Time
		parts []part
		check func(*v1alpha1.NodeHealthCheck)
		round func(*syncResult)
		waits bool // Until two seconds after the last write.
	}{
		"18.2 it was written just now":           {last: now, parts: []part{sick("n", acts)}, waits: true},
		"18.2 it is the first one":               {parts: []part{sick("n", acts)}},
		"18.2 it has waited long enough":         {last: epoch.Add(-2 * time.Second), parts: []part{sick("n", acts)}},
		"18.2 there is nothing else to do":       {last: now, parts: []part{sick("n")}},
		"18.2 the clock was set back":            {last: epoch.Add(time.Hour), parts: []part{sick("n", acts)}},
		"16.4 status has to remember since when": {last: now, parts: []part{sick("n", acts)}, check: func(n *v1alpha1.NodeHealthCheck) { n.Spec.HealthyDelay = &metav1.Duration{Duration: time.Minute} }},
		"13.2 a step has ended":                  {last: now, parts: []part{sick("n", acts, own(testCR("n", "u")), ended(epoch, testCR("n", "u")))}},
		"18.1 the phase is another one":          {last: now, parts: []part{sick("n", acts)}, round: func(r *syncResult) { r.nhc.Status.Phase = v1alpha1.PhasePaused }},
		"18.5 there is a new spec":               {last: now, parts: []part{sick("n", acts)}, round: func(r *syncResult) { r.nhc.Status.ObservedGeneration-- }},
		"9.8 a storm has begun":                  {last: now, parts: []part{sick("n", acts)}, round: func(r *syncResult) { r.nhc.Status.StormRecoveryActive = new(true) }},
		"6.3 a condition has changed": {last: now, parts: []part{sick("n", acts)}, round: func(r *syncResult) {
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: "Any", Status: metav1.ConditionTrue})
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			if tc.check != nil {
				tc.check(s.nhc)
			}
			s.sync() // The first status.
			s.now = epoch
			r := s.result(tc.parts...)
			if tc.round != nil {
				tc.round(r)
			}
			want := time.Time{}
			if tc.waits {
				want = tc.last.Add(2 * time.Second)
			}
			require.Equal(t, want, r.deferStatus(tc.last))
		})
	}
}

// TestStopPublishesDeferred: a status that waits when the controller stops is written, so that the next
// leader does not report the same once more (spec 19.1, 22.6).
func TestStopPublishesDeferred(t *testing.T) {
	t.Parallel()
	built, _ := newTestController(t, clock.RealClock{})
	require.NotNil(t, built.Stopped)
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		m, cr := sick("m", own(testCR("m", "1"))), testCR("n", "2")
		s.sync(m)
		c, client := statusWriter(s.nhc)
		recorder := &testRecorder{}
		c.events, c.metrics = eventReporter{recorder: recorder}, s.metrics
		c.Queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
		ctx, drain, ended := klog.NewContext(t.Context(), klog.Logger{}), make(chan struct{}), make(chan struct{})
		c.Stopped = c.publishDeferred
		go func() { c.Run(ctx, drain, 1); close(ended) }()

		s.now = c.Clock.Now()
		s.state.lastWrite = s.now
		r := s.result(m, sick("n", created(cr), func(p *part) { p.plan.Actions = []remediation.Action{remediation.WriteLease{}} }))
		c.states.byName = s.states.byName
		recheck, err := c.report(ctx, r.snapshot, r.Evaluated, r.results, r.now)
		require.NoError(t, err)
		require.Equal(t, s.now.Add(2*time.Second), recheck)
		require.Empty(t, client.Actions(), "it waits")

		synctest.Wait()
		close(drain)
		<-ended
		stored, err := client.RemediationV1alpha1().NodeHealthChecks().Get(ctx, s.nhc.Name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Len(t, stored.Status.UnhealthyNodes, 2)
		require.Equal(t, cr.UID, stored.Status.UnhealthyNodes[1].Remediations[0].Resource.UID)
		c.publishDeferred(ctx)
		require.Len(t, client.Actions(), 2, "one update, and the read of this test: it waits no longer")

		// The next leader finds it in status.
		s.nhc, s.now = stored, s.now.Add(time.Second)
		s.restart()
		require.Empty(t, s.sync(m, sick("n", own(cr))))
	})
}
