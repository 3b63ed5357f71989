// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// metrics are the collectors of the controller (spec 20).
type metrics struct {
	// Names and labels of the upstream operator.
	ongoing, old  *prometheus.GaugeVec
	unhealthyTime *prometheus.HistogramVec

	// Our own ones.
	observedNodes, healthyNodes, unhealthyNodes, remediatingNodes *prometheus.GaugeVec
	gateOpen, paused, disabled                                    *prometheus.GaugeVec
	started, succeeded, timedOut, cancelled                       *prometheus.CounterVec
	detectionToCreation, syncDuration                             *prometheus.HistogramVec
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
		ongoing: gauge("nodehealthcheck_ongoing_remediation", "1 while the remediation of the node is in status.", "name", "namespace", "remediation"),
		old:     gauge("nodehealthcheck_old_remediation_cr", "Number of remediations of the node that are older than 48 hours.", "name", "namespace"),
		unhealthyTime: histogram("nodehealthcheck_unhealthy_node_duration_seconds", "Time from the start of a remediation to its end.",
			[]float64{30, 60, 120, 180, 240, 300, 600, 1200, 2400, 3600}, "name", "namespace", "remediation"),
		observedNodes:    gauge("nhc_observed_nodes", "Number of selected nodes.", nhc),
		healthyNodes:     gauge("nhc_healthy_nodes", "Number of selected nodes that are healthy and not under remediation.", nhc),
		unhealthyNodes:   gauge("nhc_unhealthy_nodes", "Number of selected nodes that are unhealthy.", nhc),
		remediatingNodes: gauge("nhc_remediating_nodes", "Number of nodes under remediation.", nhc),
		gateOpen:         gauge("nhc_gate_open", "1 if enough nodes are healthy for a remediation to start.", nhc),
		paused:           gauge("nhc_paused", "1 while there are pause requests.", nhc),
		disabled:         gauge("nhc_disabled", "1 while condition Disabled is True.", nhc),
		started:          counter("nhc_remediations_started_total", "Remediations started.", nhc, "remediation"),
		succeeded:        counter("nhc_remediations_succeeded_total", "Remediations that ended with a healthy node or a success of the remediator.", nhc, "remediation"),
		timedOut:         counter("nhc_remediations_timed_out_total", "Remediations that ended after they had timed out or failed.", nhc, "remediation"),
		cancelled:        counter("nhc_remediations_cancelled_total", "Remediations that ended in any other way.", nhc, "remediation"),
		detectionToCreation: histogram("nhc_detection_to_creation_seconds", "Time from a node being unhealthy to the creation of its first remediation.",
			prometheus.ExponentialBuckets(0.01, 2, 16), nhc),
		syncDuration: histogram("nhc_sync_duration_seconds", "Duration of a sync.", prometheus.ExponentialBuckets(0.0005, 2, 16), nhc),
	}
	for _, collector := range []prometheus.Collector{
		m.ongoing, m.old, m.unhealthyTime,
		m.observedNodes, m.healthyNodes, m.unhealthyNodes, m.remediatingNodes, m.gateOpen, m.paused, m.disabled,
		m.started, m.succeeded, m.timedOut, m.cancelled, m.detectionToCreation, m.syncDuration,
	} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// update brings the metrics of a NodeHealthCheck in line with a reported round.
func (m *metrics) update(r *round, memory *memory) {
	name := r.nhc.Name
	m.observedNodes.WithLabelValues(name).Set(float64(r.world.fleet.Observed))
	m.healthyNodes.WithLabelValues(name).Set(float64(r.world.fleet.Healthy))
	m.unhealthyNodes.WithLabelValues(name).Set(float64(r.world.fleet.Unhealthy))
	m.remediatingNodes.WithLabelValues(name).Set(float64(*r.status.RemediatingNodes))
	m.gateOpen.WithLabelValues(name).Set(truth(r.world.gate.Open))
	m.paused.WithLabelValues(name).Set(truth(len(r.nhc.Spec.PauseRequests) > 0))
	m.disabled.WithLabelValues(name).Set(truth(meta.IsStatusConditionPresentAndEqual(r.status.Conditions, v1alpha1.ConditionDisabled, metav1.ConditionTrue)))

	for i := range r.plans {
		if cr := r.outcomes[i].Created; cr != nil && len(r.plans[i].Node.Own) == 0 && len(r.plans[i].Node.Recorded) == 0 && !r.plans[i].Node.Verdict.Deadline.IsZero() {
			m.detectionToCreation.WithLabelValues(name).Observe(max(0, r.now.Sub(r.plans[i].Node.Verdict.Deadline).Seconds()))
		}
	}
	before := memory.remediations
	first := before == nil
	if first {
		before = shownIn(&r.nhc.Status) // After a restart, status tells what went on.
	}
	after := r.track()
	for uid, cr := range after {
		m.ongoing.WithLabelValues(cr.node, cr.namespace, cr.kind).Set(1)
		if _, known := before[uid]; !known {
			m.started.WithLabelValues(name, cr.kind).Inc()
		}
	}
	healthy := r.healthyNodes()
	for uid, cr := range before {
		if _, goesOn := after[uid]; goesOn {
			continue
		}
		m.end(name, cr, healthy[cr.node] || r.succeeded(uid), r.now)
	}
	for _, cr := range after {
		m.ongoing.WithLabelValues(cr.node, cr.namespace, cr.kind).Set(1) // Where a successor shares the labels of one that has ended.
	}
	memory.remediations = after
	memory.oldNodes = m.updateOld(r.oldCRs(), memory.oldNodes)
}

// updateOld counts the old CRs per node, and removes the series of nodes that had
// some and have none left.
func (m *metrics) updateOld(old []*remediation.CR, before sets.Set[string]) sets.Set[string] {
	perNode := map[string]int{}
	for _, cr := range old {
		perNode[cr.Node()]++
	}
	for node := range before {
		if perNode[node] == 0 {
			m.old.DeleteLabelValues(node, "")
		}
	}
	for node, n := range perNode {
		m.old.WithLabelValues(node, "").Set(float64(n))
	}
	return sets.KeySet(perNode)
}

// end counts the end of a remediation, in exactly one way.
func (m *metrics) end(nhc string, cr tracked, succeeded bool, now time.Time) {
	m.ongoing.DeleteLabelValues(cr.node, cr.namespace, cr.kind)
	m.unhealthyTime.WithLabelValues(cr.node, cr.namespace, cr.kind).Observe(max(0, now.Sub(cr.started).Seconds()))
	switch {
	case cr.timedOut:
		m.timedOut.WithLabelValues(nhc, cr.kind).Inc()
	case succeeded || cr.succeeded:
		m.succeeded.WithLabelValues(nhc, cr.kind).Inc()
	default:
		m.cancelled.WithLabelValues(nhc, cr.kind).Inc()
	}
}

// forget removes the series of a NodeHealthCheck that is gone.
func (m *metrics) forget(nhc string, memory *memory) {
	for _, gauge := range []*prometheus.GaugeVec{m.observedNodes, m.healthyNodes, m.unhealthyNodes, m.remediatingNodes, m.gateOpen, m.paused, m.disabled} {
		gauge.DeleteLabelValues(nhc)
	}
	series := prometheus.Labels{"nodehealthcheck": nhc}
	for _, counter := range []*prometheus.CounterVec{m.started, m.succeeded, m.timedOut, m.cancelled} {
		counter.DeletePartialMatch(series)
	}
	m.detectionToCreation.DeletePartialMatch(series)
	m.syncDuration.DeletePartialMatch(series)
	if memory == nil {
		return
	}
	for node := range memory.oldNodes {
		m.old.DeleteLabelValues(node, "")
	}
	for _, cr := range memory.remediations {
		m.ongoing.DeleteLabelValues(cr.node, cr.namespace, cr.kind)
	}
}

// shownIn returns the CRs that a status shows.
func shownIn(status *v1alpha1.NodeHealthCheckStatus) map[types.UID]tracked {
	crs := map[types.UID]tracked{}
	for i := range status.UnhealthyNodes {
		node := &status.UnhealthyNodes[i]
		for j := range node.Remediations {
			cr := &node.Remediations[j]
			crs[cr.Resource.UID] = tracked{
				node: node.Name, namespace: cr.Resource.Namespace, kind: cr.Resource.Kind,
				started: cr.Started.Time, timedOut: cr.TimedOut != nil,
			}
		}
	}
	return crs
}

// track returns the CRs that exist after the round, also those of nodes that status
// is too small for.
func (r *round) track() map[types.UID]tracked {
	crs := map[types.UID]tracked{}
	for i := range r.plans {
		node := &r.plans[i].Node
		succeeded := map[types.UID]bool{}
		for _, own := range node.Own {
			succeeded[own.UID] = own.Succeeded == corev1.ConditionTrue
		}
		for _, cr := range remediationsOf(node, &r.outcomes[i]) {
			crs[cr.Resource.UID] = tracked{
				node: node.Name, namespace: cr.Resource.Namespace, kind: cr.Resource.Kind,
				started: cr.Started.Time, timedOut: cr.TimedOut != nil, succeeded: succeeded[cr.Resource.UID],
			}
		}
	}
	return crs
}

// succeeded tells whether a CR that was just removed reported success.
func (r *round) succeeded(uid types.UID) bool {
	for i := range r.plans {
		for _, own := range r.plans[i].Node.Own {
			if own.UID == uid {
				return own.Succeeded == corev1.ConditionTrue
			}
		}
	}
	return false
}

// healthyNodes tells which nodes are healthy now, of those whose remediations may
// have ended: a node that is in no plan but exists has nothing against it.
func (r *round) healthyNodes() map[string]bool {
	healthy := map[string]bool{}
	for i := range r.nhc.Status.UnhealthyNodes {
		name := r.nhc.Status.UnhealthyNodes[i].Name
		healthy[name] = r.node(name) != nil
	}
	for i := range r.plans {
		node := &r.plans[i].Node
		healthy[node.Name] = node.Verdict.State == health.Healthy && !node.Circumstances.NodeDeleted
	}
	return healthy
}
