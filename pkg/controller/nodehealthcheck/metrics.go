// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/series"
)

// metrics are the collectors of the controller (spec 20).
type metrics struct {
	series *series.Set

	// A name and labels of the upstream operator.
	unhealthyTime *prometheus.HistogramVec
	nodes         nodesSeen

	// Our own ones.
	observedNodes, healthyNodes, unhealthyNodes, soonUnhealthyNodes, remediatingNodes *prometheus.GaugeVec
	gateOpen, stormActive, paused, disabled, overlap                                  *prometheus.GaugeVec
	nodesWaiting                                                                      *prometheus.GaugeVec
	started, succeeded, timedOut, cancelled, episodes, failedEpisodes                 *prometheus.CounterVec
	detectionToCreation, episodeDuration                                              *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	set := series.Of("nodehealthcheck")
	m := &metrics{
		series: set,
		nodes:  nodesSeen{byName: map[string]time.Time{}},
		unhealthyTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nodehealthcheck_unhealthy_node_duration_seconds", Help: "Time from the start of a remediation to its end.",
			Buckets: []float64{30, 60, 120, 180, 240, 300, 600, 1200, 2400, 3600},
		}, []string{"name", "namespace", "remediation"}),
		observedNodes:       set.Gauge("nhc_observed_nodes", "Number of selected nodes."),
		healthyNodes:        set.Gauge("nhc_healthy_nodes", "Number of selected nodes that are healthy and not under remediation."),
		unhealthyNodes:      set.Gauge("nhc_unhealthy_nodes", "Number of selected nodes that are unhealthy."),
		soonUnhealthyNodes:  set.Gauge("nhc_soon_unhealthy_nodes", "Number of selected nodes that are unhealthy once a condition has lasted for its duration."),
		remediatingNodes:    set.Gauge("nhc_remediating_nodes", "Number of nodes under remediation."),
		nodesWaiting:        set.Gauge("nhc_nodes_waiting", "Number of nodes for which no remediation is running, by the reason of the decision on them.", "reason"),
		stormActive:         set.Gauge("nhc_storm_active", "1 while storm recovery keeps first remediations from being started."),
		gateOpen:            set.Gauge("nhc_gate_open", "1 if enough nodes are healthy for a remediation to start."),
		paused:              set.Gauge("nhc_paused", "1 while there are pause requests."),
		disabled:            set.Gauge("nhc_disabled", "1 while condition Disabled is True."),
		overlap:             set.Gauge("nhc_selector_overlap", "1 while condition SelectorOverlap is True."),
		started:             set.Counter("nhc_remediations_started_total", "Remediations started.", "remediation"),
		succeeded:           set.Counter("nhc_remediations_succeeded_total", "Remediations that ended with a healthy node or a success of the remediator.", "remediation"),
		timedOut:            set.Counter("nhc_remediations_timed_out_total", "Remediations that ended after they had timed out or failed.", "remediation"),
		cancelled:           set.Counter("nhc_remediations_cancelled_total", "Remediations that ended in any other way.", "remediation"),
		episodes:            set.Counter("nhc_episodes_total", "Episodes of unhealthy nodes that have ended, by outcome.", "outcome"),
		failedEpisodes:      set.Counter("nhc_failed_episodes_total", "Episodes that have ended without help of any of their remediations: all have timed out or failed. By the kind of the last one.", "remediation"),
		episodeDuration:     set.Histogram("nhc_episode_duration_seconds", "Time from the condition that made a node unhealthy until the node was healthy again, or the episode ended otherwise.", 15, 14),
		detectionToCreation: set.Histogram("nhc_detection_to_creation_seconds", "Time from a node being unhealthy to the creation of its first remediation.", 0.01, 16),
	}
	return m, set.Register(registerer, m.unhealthyTime)
}

// episodeOutcomes are the values of label outcome.
var episodeOutcomes = []v1alpha1.EpisodeOutcome{
	v1alpha1.OutcomeRecovered, v1alpha1.OutcomeRecoveredWithoutRemediation, v1alpha1.OutcomeReplaced, v1alpha1.OutcomeNodeDeleted, v1alpha1.OutcomeCancelled,
	v1alpha1.OutcomeDryRun,
}

// initialize starts the counters and histograms of a NodeHealthCheck with zero, so that their
// first increase is visible (spec 20.3).
func (m *metrics) initialize(nhc *v1alpha1.NodeHealthCheck) {
	for _, step := range remediation.Steps(&nhc.Spec) {
		kind, valid := step.RemediationKind()
		if !valid {
			continue
		}
		for _, counter := range []*prometheus.CounterVec{m.started, m.succeeded, m.timedOut, m.cancelled, m.failedEpisodes} {
			counter.WithLabelValues(nhc.Name, kind.Kind)
		}
	}
	for _, outcome := range episodeOutcomes {
		m.episodes.WithLabelValues(nhc.Name, string(outcome))
	}
	m.detectionToCreation.WithLabelValues(nhc.Name)
	m.episodeDuration.WithLabelValues(nhc.Name)
}
