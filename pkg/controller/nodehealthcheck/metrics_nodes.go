// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// recentWindow is the period of nhc_node_recent_remediations (spec 20.2).
const recentWindow = 24 * time.Hour

var (
	nodeDecision = prometheus.NewDesc("nhc_node_decision", "1 for the decision on each node in status.unhealthyNodes.",
		[]string{"nodehealthcheck", "node", "type", "reason"}, nil)
	nodeRecentRemediations = prometheus.NewDesc("nhc_node_recent_remediations", "Number of episodes of the node in status.remediationHistory whose first remediation began in the last 24 hours.",
		[]string{"nodehealthcheck", "node"}, nil)
	// Names and labels of the upstream operator. They do not name the NodeHealthCheck: several may contribute to one
	// series.
	ongoingRemediation = prometheus.NewDesc("nodehealthcheck_ongoing_remediation", "1 while the remediation of the node is in status.",
		[]string{"name", "namespace", "remediation"}, nil)
	oldRemediation = prometheus.NewDesc("nodehealthcheck_old_remediation_cr", "Number of remediations of the node that are older than 48 hours.",
		[]string{"name", "namespace"}, nil)
)

// nodeCollector reads the gauges that name nodes at each scrape, from the NodeHealthChecks and CRs in
// the cache. So a new leader shows what the last one wrote, and no series outlives its object.
type nodeCollector struct{ controller *Controller }

// Describe implements [prometheus.Collector].
func (nodeCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{nodeDecision, nodeRecentRemediations, ongoingRemediation, oldRemediation} {
		descriptions <- description
	}
}

// Collect implements [prometheus.Collector].
func (n nodeCollector) Collect(series chan<- prometheus.Metric) {
	nhcs, err := n.controller.nhcs.List(labels.Everything())
	if err != nil {
		series <- prometheus.NewInvalidMetric(nodeDecision, err)
		return
	}
	now := n.controller.Clock.Now()
	for _, nhc := range nhcs {
		for node, decision := range decisionsOf(&nhc.Status) {
			series <- gauge(nodeDecision, 1, nhc.Name, node, string(decision.Type), string(decision.Reason))
		}
		for node, episodes := range recentRemediations(&nhc.Status, now) {
			series <- gauge(nodeRecentRemediations, float64(episodes), nhc.Name, node)
		}
	}
	n.collectRemediations(nhcs, now, series)
}

// collectRemediations collects the gauges of the upstream operator.
func (n nodeCollector) collectRemediations(nhcs []*v1alpha1.NodeHealthCheck, now time.Time, series chan<- prometheus.Metric) {
	ongoing, old := map[[3]string]bool{}, map[string]int{}
	caches := n.controller.Remediations.Caches()
	for _, nhc := range nhcs {
		for _, cr := range remediationsIn(nhc.Status.UnhealthyNodes) {
			ongoing[[3]string{cr.node, cr.Resource.Namespace, cr.Resource.Kind}] = true
		}
		for _, indexer := range caches {
			for _, cr := range watches.Indexed[*object.CR](indexer, byOwner, nhc.Name) {
				if !now.Before(cr.CreationTimestamp.Add(v1alpha1.OldRemediationAge)) {
					old[cr.Node()]++
				}
			}
		}
	}
	for of := range ongoing {
		series <- gauge(ongoingRemediation, 1, of[:]...)
	}
	for node, crs := range old {
		series <- gauge(oldRemediation, float64(crs), node, "")
	}
}

// decisionsOf returns the decisions by node. A duplicate series would fail the whole
// scrape.
func decisionsOf(status *v1alpha1.NodeHealthCheckStatus) map[string]*v1alpha1.Decision {
	decisions := map[string]*v1alpha1.Decision{}
	for i := range status.UnhealthyNodes {
		if entry := &status.UnhealthyNodes[i]; entry.Decision != nil {
			decisions[entry.Name] = entry.Decision
		}
	}
	return decisions
}

// recentRemediations counts by node the episodes whose first remediation began in the last
// 24 hours. A dry run remediates nothing.
func recentRemediations(status *v1alpha1.NodeHealthCheckStatus, now time.Time) map[string]int {
	episodes := map[string]int{}
	for i := range status.RemediationHistory {
		episode := &status.RemediationHistory[i]
		if len(episode.Steps) > 0 && episode.Started != nil && now.Sub(episode.Started.Time) < recentWindow {
			episodes[episode.Node]++
		}
	}
	return episodes
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return metric
}
