// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// metrics are the collectors of the controller (spec 20).
type metrics struct {
	// Names and labels of the upstream operator.
	ongoing, old  *sharedGauge
	unhealthyTime *prometheus.HistogramVec
	// nodes are those with series of unhealthyTime.
	nodes nodeSeries

	// Our own ones.
	observedNodes, healthyNodes, unhealthyNodes, soonUnhealthyNodes, remediatingNodes *prometheus.GaugeVec
	gateOpen, stormActive, paused, disabled, overlap                                  *prometheus.GaugeVec
	nodesWaiting, leftovers, ongoingRemediations, oldRemediations                     *prometheus.GaugeVec
	started, succeeded, timedOut, cancelled, failed                                   *prometheus.CounterVec
	preflightRecovered, episodes, failedEpisodes, staleRetries                        *prometheus.CounterVec
	detectionToCreation, syncDuration, nodeWaiting, episodeDuration                   *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	const nhc = "nodehealthcheck"
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &metrics{
		ongoing: &sharedGauge{max: 1, vec: gauge("nodehealthcheck_ongoing_remediation", "1 while the remediation of the node is in status.", "name", "namespace", "remediation")},
		old:     &sharedGauge{vec: gauge("nodehealthcheck_old_remediation_cr", "Number of remediations of the node that are older than 48 hours.", "name", "namespace")},
		unhealthyTime: histogram("nodehealthcheck_unhealthy_node_duration_seconds", "Time from the start of a remediation to its end.",
			[]float64{30, 60, 120, 180, 240, 300, 600, 1200, 2400, 3600}, "name", "namespace", "remediation"),
		observedNodes:       gauge("nhc_observed_nodes", "Number of selected nodes.", nhc),
		healthyNodes:        gauge("nhc_healthy_nodes", "Number of selected nodes that are healthy and not under remediation.", nhc),
		unhealthyNodes:      gauge("nhc_unhealthy_nodes", "Number of selected nodes that are unhealthy.", nhc),
		soonUnhealthyNodes:  gauge("nhc_soon_unhealthy_nodes", "Number of selected nodes that are unhealthy once a condition has lasted for its duration.", nhc),
		remediatingNodes:    gauge("nhc_remediating_nodes", "Number of nodes under remediation.", nhc),
		nodesWaiting:        gauge("nhc_nodes_waiting", "Number of nodes for which no remediation is running, by the reason of the decision on them.", nhc, "reason"),
		ongoingRemediations: gauge("nhc_ongoing_remediations", "Number of remediations in status.", nhc),
		oldRemediations:     gauge("nhc_old_remediations", "Number of remediations that are older than 48 hours.", nhc),
		leftovers:           gauge("nhc_leftover_remediations", "Number of remediations that are still being deleted although their Node is gone.", nhc),
		stormActive:         gauge("nhc_storm_active", "1 while storm recovery keeps first remediations from being started.", nhc),
		gateOpen:            gauge("nhc_gate_open", "1 if enough nodes are healthy for a remediation to start.", nhc),
		paused:              gauge("nhc_paused", "1 while there are pause requests.", nhc),
		disabled:            gauge("nhc_disabled", "1 while condition Disabled is True.", nhc),
		overlap:             gauge("nhc_selector_overlap", "1 while condition SelectorOverlap is True.", nhc),
		started:             counter("nhc_remediations_started_total", "Remediations started.", nhc, "remediation"),
		succeeded:           counter("nhc_remediations_succeeded_total", "Remediations that ended with a healthy node or a success of the remediator.", nhc, "remediation"),
		timedOut:            counter("nhc_remediations_timed_out_total", "Remediations that ended after they had timed out or failed.", nhc, "remediation"),
		cancelled:           counter("nhc_remediations_cancelled_total", "Remediations that ended in any other way.", nhc, "remediation"),
		failed:              counter("nhc_remediations_failed_total", "Remediations whose remediator reported a failure that no step follows.", nhc, "remediation"),
		preflightRecovered:  counter("nhc_last_look_recovered_total", "Remediations that were not created because a live read found the node no longer unhealthy.", nhc),
		staleRetries:        counter("nhc_stale_cache_retries_total", "Syncs put off because a cache did not show the own write of an earlier one, by the resource that was written.", nhc, "resource"),
		episodes:            counter("nhc_episodes_total", "Episodes of unhealthy nodes that have ended, by outcome.", nhc, "outcome"),
		failedEpisodes:      counter("nhc_failed_episodes_total", "Episodes that have ended without help of any of their remediations: all have timed out or failed. By the kind of the last one.", nhc, "remediation"),
		episodeDuration: histogram("nhc_episode_duration_seconds", "Time from the condition that made a node unhealthy until the node was healthy again, or the episode ended otherwise.",
			prometheus.ExponentialBuckets(15, 2, 14), nhc),
		nodeWaiting: histogram("nhc_node_waiting_seconds", "How long a node was kept waiting for one reason.", prometheus.ExponentialBuckets(1, 2, 16), nhc, "reason"),
		detectionToCreation: histogram("nhc_detection_to_creation_seconds", "Time from a node being unhealthy to the creation of its first remediation.",
			prometheus.ExponentialBuckets(0.01, 2, 16), nhc),
		syncDuration: histogram("nhc_sync_duration_seconds", "Duration of a sync.", prometheus.ExponentialBuckets(0.0005, 2, 16), nhc),
	}
	for _, collector := range m.all() {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

// series is a metric whose series can be removed.
type series interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// perCheck returns the metrics that have the label nodehealthcheck.
func (m *metrics) perCheck() []series {
	return []series{
		m.observedNodes, m.healthyNodes, m.unhealthyNodes, m.soonUnhealthyNodes, m.remediatingNodes,
		m.gateOpen, m.stormActive, m.paused, m.disabled, m.overlap, m.nodesWaiting, m.leftovers,
		m.ongoingRemediations, m.oldRemediations,
		m.started, m.succeeded, m.timedOut, m.cancelled, m.failed, m.preflightRecovered, m.episodes, m.failedEpisodes, m.staleRetries,
		m.detectionToCreation, m.syncDuration, m.nodeWaiting, m.episodeDuration,
	}
}

func (m *metrics) all() []prometheus.Collector {
	collectors := []prometheus.Collector{m.ongoing.vec, m.old.vec, m.unhealthyTime}
	for _, metric := range m.perCheck() {
		collectors = append(collectors, metric)
	}
	return collectors
}

// episodeOutcomes are the values of label outcome.
var episodeOutcomes = []v1alpha1.EpisodeOutcome{
	v1alpha1.OutcomeRecovered, v1alpha1.OutcomeRecoveredWithoutRemediation, v1alpha1.OutcomeReplaced, v1alpha1.OutcomeNodeDeleted, v1alpha1.OutcomeCancelled,
	v1alpha1.OutcomeDryRun,
}

// initialize makes the counters and histograms of a NodeHealthCheck that are zero, so that
// the first increase of each can be seen (spec 20.3). Those by the reason of a decision come
// when they are needed: there are too many.
func (m *metrics) initialize(nhc *v1alpha1.NodeHealthCheck) {
	for _, step := range remediation.Steps(&nhc.Spec) {
		kind, valid := step.RemediationKind()
		if !valid {
			continue
		}
		for _, counter := range []*prometheus.CounterVec{m.started, m.succeeded, m.timedOut, m.cancelled, m.failed, m.failedEpisodes} {
			counter.WithLabelValues(nhc.Name, kind.Kind)
		}
	}
	for _, outcome := range episodeOutcomes {
		m.episodes.WithLabelValues(nhc.Name, string(outcome))
	}
	m.preflightRecovered.WithLabelValues(nhc.Name)
	for _, histogram := range []*prometheus.HistogramVec{m.detectionToCreation, m.syncDuration, m.episodeDuration} {
		histogram.WithLabelValues(nhc.Name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
