// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

const (
	started, succeededTotal  = "nhc_remediations_started_total", "nhc_remediations_succeeded_total"
	timedOutTotal, cancelled = "nhc_remediations_timed_out_total", "nhc_remediations_cancelled_total"
	unhealthySeconds         = "nodehealthcheck_unhealthy_node_duration_seconds"
	detection                = "nhc_detection_to_creation_seconds"
)

// TestMetricsOfAnEpisode ends a remediation in every way there is.
func TestMetricsOfAnEpisode(t *testing.T) {
	t.Parallel()
	cr := testCR("n", "1")
	tests := map[string]struct {
		middle, end []part
		counter     string
	}{
		"20.2 the node is healthy":                  {middle: []part{well("n", own(cr), deleted(cr))}, end: []part{well("n")}, counter: succeededTotal},
		"20.2 the CR has succeeded":                 {middle: []part{sick("n", own(testCR("n", "1", crSucceeded)))}, end: []part{sick("n", gone(testCR("n", "1", crSucceeded)))}, counter: succeededTotal},
		"20.2 its success came with its deletion":   {end: []part{sick("n", gone(testCR("n", "1", crSucceeded)))}, counter: succeededTotal},
		"20.2 timed out":                            {middle: []part{sick("n", own(testCR("n", "1", crMarked)))}, end: []part{sick("n")}, counter: timedOutTotal},
		"20.2 timed out, and the node recovered":    {middle: []part{sick("n", own(testCR("n", "1", crMarked)))}, end: []part{well("n")}, counter: timedOutTotal},
		"20.2 somebody has deleted it":              {end: []part{sick("n")}, counter: cancelled},
		"20.2 the Node was deleted":                 {end: []part{sick("n", nodeDeleted, own(cr), deleted(cr))}, counter: cancelled},
		"20.2 the Node was deleted after a success": {middle: []part{sick("n", own(testCR("n", "1", crSucceeded)))}, end: []part{sick("n", nodeDeleted, own(testCR("n", "1", crSucceeded)), deleted(cr))}, counter: succeededTotal},
		"20.2 its success is only seen at the end":  {end: []part{sick("n", nodeDeleted, own(testCR("n", "1", crSucceeded)), deleted(cr))}, counter: succeededTotal},
		"20.2 no longer selected, deleted by hand":  {middle: []part{sick("n", unselected, own(cr))}, end: []part{sick("n", unselected)}, counter: cancelled},
		"11.6 replaced by a new one":                {end: []part{sick("n", created(testCR("n", "2")))}, counter: cancelled},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.sync(sick("n", created(cr)))
			key := "/n/remediators/RebootRemediation"
			require.Equal(t, map[string]float64{"/workers/RebootRemediation": 1}, s.values(t, started))
			if tc.middle != nil {
				s.sync(tc.middle...)
				s.sync(tc.middle...)
			}
			require.Empty(t, s.values(t, unhealthySeconds), "20.1: one sample at its end")
			s.sync(tc.end...)
			require.Equal(t, map[string]float64{key: 1}, s.values(t, unhealthySeconds), "20.1: series stay")
			ends := map[string]map[string]float64{}
			for _, counter := range []string{succeededTotal, timedOutTotal, cancelled} {
				if values := s.values(t, counter); len(values) > 0 {
					ends[counter] = values
				}
			}
			require.Equal(t, map[string]map[string]float64{tc.counter: {"/workers/RebootRemediation": 1}}, ends, "20.2: in exactly one of them")
		})
	}
}

// TestUnhealthyTime: from the start of a remediation to its end, also across a restart.
func TestUnhealthyTime(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(sick("n", created(testCR("n", "1"))), sick("m", created(testCR("m", "2"))))
	s.now = epoch.Add(100 * time.Second)
	s.sync(well("n"), sick("m", own(testCR("m", "2", crMarked))))
	require.Equal(t, map[string]float64{"/n/remediators/RebootRemediation": 100}, s.sums(t, unhealthySeconds), "20.1")
	s.restart()
	s.now = epoch.Add(200 * time.Second)
	s.sync(sick("m"))
	require.Equal(t, map[string]float64{"/n/remediators/RebootRemediation": 100, "/m/remediators/RebootRemediation": 200}, s.sums(t, unhealthySeconds), "20.1 P8")
	require.Equal(t, map[string]float64{"/workers/RebootRemediation": 1}, s.values(t, timedOutTotal), "P8: status tells how it has ended")
}

// TestEndOfARemediationOutOfSight: its node is in no plan, as nothing is against it, or
// as it does not exist.
func TestEndOfARemediationOutOfSight(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(sick("here", created(testCR("here", "1"))), sick("gone", created(testCR("gone", "2"))))
	s.observe = func(w *observed) {
		w.nodes, w.objects = []remediation.Node{{Name: "here"}}, []*corev1.Node{testNode("here")}
	}
	s.sync()
	require.Equal(t, map[string]float64{"/workers/RebootRemediation": 1}, s.values(t, succeededTotal), "20.2: the node is healthy")
	require.Equal(t, map[string]float64{"/workers/RebootRemediation": 1}, s.values(t, cancelled), "20.2: any other end")
}

func TestGauges(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.observe = func(w *observed) {
		w.Summary.Observed, w.Summary.Healthy, w.Summary.Unhealthy, w.Summary.SoonUnhealthy, w.Gate = 9, 5, 3, 2, health.Gate{Open: true}
	}
	s.sync(sick("a", own(testCR("a", "1"))), sick("b"))
	gauges := func() map[string]float64 {
		values := map[string]float64{}
		for _, name := range []string{"nhc_observed_nodes", "nhc_healthy_nodes", "nhc_unhealthy_nodes", "nhc_remediating_nodes", "nhc_soon_unhealthy_nodes", "nhc_gate_open", "nhc_storm_active", "nhc_paused", "nhc_disabled", "nhc_selector_overlap"} {
			for key, value := range s.values(t, name) {
				values[name+key] = value
			}
		}
		return values
	}
	require.Equal(t, map[string]float64{
		"nhc_observed_nodes/workers": 9, "nhc_healthy_nodes/workers": 5, "nhc_unhealthy_nodes/workers": 3, "nhc_remediating_nodes/workers": 1,
		"nhc_soon_unhealthy_nodes/workers": 2, "nhc_gate_open/workers": 1, "nhc_storm_active/workers": 0, "nhc_paused/workers": 0, "nhc_disabled/workers": 0, "nhc_selector_overlap/workers": 0,
	}, gauges(), "20.2")
	s.observe = func(w *observed) {
		w.templates.Problem, w.Storm.Active, w.overlaps = &remediation.Problem{}, true, map[string]int{"others": 1}
	}
	s.nhc.Spec.PauseRequests = []string{"x"}
	s.sync()
	require.Equal(t, map[string]float64{
		"nhc_observed_nodes/workers": 0, "nhc_healthy_nodes/workers": 0, "nhc_unhealthy_nodes/workers": 0, "nhc_remediating_nodes/workers": 0,
		"nhc_soon_unhealthy_nodes/workers": 0, "nhc_gate_open/workers": 0, "nhc_storm_active/workers": 1, "nhc_paused/workers": 1, "nhc_disabled/workers": 1, "nhc_selector_overlap/workers": 1,
	}, gauges(), "20.2 P4")
}

// TestSeriesOfDeletedNHC: only the documented series are left.
func TestSeriesOfDeletedNHC(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(sick("n", created(testCR("n", "1"))))
	s.sync(well("n"))
	s.now = epoch.Add(49 * time.Hour)
	s.sync(sick("n", own(testCR("n", "2"))), sick("m", own(testCR("m", "3", crMarked))), sick("o", own(testCR("o", "4"))))
	s.sync(sick("m"), sick("o"), sick("n", own(testCR("n", "2"))))
	s.metrics.series.Forget("workers")
	families, err := s.registry.Gather()
	require.NoError(t, err)
	var left []string
	for _, family := range families {
		left = append(left, family.GetName())
	}
	require.Equal(t, []string{unhealthySeconds}, left, "20.2: removed; 20.1: these series stay")
}

// TestSeriesOfRecreatedNHC: the NodeHealthCheck was deleted and created again before a sync has seen that.
func TestSeriesOfRecreatedNHC(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, registry := newTestController(t, clock.RealClock{})
		s := &story{registry: registry}
		count := func(uid types.UID, want float64) {
			t.Helper()
			nhc := testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.UID, nhc.Generation = uid, 1 })
			c.initializeMetrics(&snapshot{nhc: nhc, state: c.states.of(nhc)})
			c.metrics.started.WithLabelValues("workers", "RebootRemediation").Inc()
			require.Equal(t, map[string]float64{"/workers/RebootRemediation": want}, s.values(t, started))
		}
		count("first", 1)
		count("first", 2)
		count("second", 1) // 20.2: the series of a deleted NHC are removed
	})
}

func TestDetectionToCreation(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	cr := testCR("n", "1")
	s.sync(sick("n", createdAt(cr, epoch.Add(3*time.Second))))
	require.Equal(t, map[string]float64{"/workers": 1}, s.values(t, detection), "20.2")
	s.sync(sick("n", own(cr)))
	s.sync(sick("n", own(cr), created(testCR("n", "2"))))
	require.Equal(t, map[string]float64{"/workers": 1}, s.values(t, detection), "20.2: until its first CR")
	s.now = epoch.Add(time.Hour)
	s.sync(sick("n", created(testCR("n", "3"))))
	s.sync(sick("m"), sick("o", own(testCR("o", "4")), created(testCR("o", "5"))), sick("p", created(testCR("p", "6")), func(p *part) { p.plan.Node.Verdict.Deadline = time.Time{} }))
	require.Equal(t, map[string]float64{"/workers": 1}, s.values(t, detection), "20.2: not without a CR, nor for one that status has lost, nor without a deadline")
	require.Equal(t, map[string]float64{"/workers": 3}, s.sums(t, detection), "20.2: in seconds")
	require.Equal(t, map[string]float64{"/workers": 1}, s.values(t, detection), "20.2 11.6: one that replaces a CR that has vanished is not the first")
}

func TestMetricsLint(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.now = epoch.Add(49 * time.Hour)
	s.sync(sick("e", refused(v1alpha1.DecidedPaused)), sick("f", func(p *part) { p.outcome.Result, p.outcome.Reason = remediation.Recovered, v1alpha1.DecidedRecovering }))
	s.sync(sick("a", created(testCR("a", "1"))), sick("b", own(testCR("b", "2", crMarked))), sick("c", own(testCR("c", "3"))), sick("d", own(testCR("d", "4"))))
	s.sync(sick("a"), sick("b"), sick("c", own(testCR("c", "3")), stepFailed(testCR("c", "3"))), well("d"))
	s.sync(well("b"), sick("c", own(testCR("c", "3"))))
	families, err := s.registry.Gather()
	require.NoError(t, err)
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
		require.NotEmpty(t, family.GetHelp())
	}
	want := []string{
		unhealthySeconds, started, succeededTotal, timedOutTotal, cancelled, detection,
		"nhc_observed_nodes", "nhc_healthy_nodes", "nhc_unhealthy_nodes", "nhc_soon_unhealthy_nodes", "nhc_remediating_nodes",
		"nhc_gate_open", "nhc_storm_active", "nhc_paused", "nhc_disabled", "nhc_selector_overlap", failedEpisodes,
		"nhc_nodes_waiting", "nhc_episodes_total", "nhc_episode_duration_seconds",
	}
	slices.Sort(want)
	require.Equal(t, want, names, "20.1 20.2")
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestNodesWaiting(t *testing.T) {
	t.Parallel()
	const waiting = "nhc_nodes_waiting"
	s := newStory(t)
	nonZero := func() map[string]float64 {
		values := s.values(t, waiting)
		maps.DeleteFunc(values, func(_ string, value float64) bool { return value == 0 })
		return values
	}
	blocked := func(p *part) { p.plan.Reason = v1alpha1.DecidedPaused } // Its step is over, and may not end.
	s.sync(sick("a", refused(v1alpha1.DecidedPaused)), sick("b", refused(v1alpha1.DecidedPaused)), sick("c", own(testCR("c", "1"))), sick("d", own(testCR("d", "2")), blocked))
	require.Equal(t, map[string]float64{"/workers/Paused": 2}, nonZero(), "nodes under remediation do not wait")
	require.Contains(t, s.values(t, waiting), "/workers/GateClosed", "series that are zero are there")
	require.NotContains(t, s.values(t, waiting), "/workers/StepRunning")

	s.sync(sick("a", refused(v1alpha1.DecidedGateClosed)), sick("b", refused(v1alpha1.DecidedPaused)), well("c"))
	require.Equal(t, map[string]float64{"/workers/Paused": 1, "/workers/GateClosed": 1}, nonZero())

	s.restart()
	s.sync(sick("b", own(testCR("b", "2"))))
	require.Empty(t, nonZero())
	s.metrics.series.Forget("workers")
	require.Empty(t, s.values(t, waiting), "20.2: series of a deleted NHC are removed")
}

func TestEpisodesAreCounted(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.nhc.Spec.RemediationHistoryLimit = new(int32(0))
	s.sync(sick("a", own(testCR("a", "1"))), sick("b"), sick("c"))
	s.sync(well("a"), well("b"), sick("c", nodeDeleted))
	require.Equal(t, map[string]float64{"/workers/Recovered": 1, "/workers/RecoveredWithoutRemediation": 1, "/workers/Replaced": 0, "/workers/NodeDeleted": 1, "/workers/Cancelled": 0, "/workers/DryRun": 0}, s.values(t, "nhc_episodes_total"))
	require.Equal(t, map[string]float64{"/workers": 3}, s.values(t, "nhc_episode_duration_seconds"))
	require.Equal(t, map[string]float64{"/workers": 3 * 61}, s.sums(t, "nhc_episode_duration_seconds"), "a minute as a condition, and a second more")
	require.Empty(t, s.nhc.Status.RemediationHistory, "0 turns it off, and only the list")
	s.sync(well("a"))
	require.Equal(t, map[string]float64{"/workers": 3}, s.values(t, "nhc_episode_duration_seconds"), "once")
}
