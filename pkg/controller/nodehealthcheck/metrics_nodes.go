// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// recentWindow is the period of nhc_node_recent_remediations (spec 20.2).
const recentWindow = 24 * time.Hour

var (
	nodeDecision = prometheus.NewDesc("nhc_node_decision", "1 for the decision on each node in status.unhealthyNodes.",
		[]string{"nodehealthcheck", "node", "type", "reason"}, nil)
	nodeRecentRemediations = prometheus.NewDesc("nhc_node_recent_remediations", "Number of episodes of the node in status.remediationHistory whose first remediation began in the last 24 hours.",
		[]string{"nodehealthcheck", "node"}, nil)
)

// nodeCollector reads the metrics that name nodes from the status of the NodeHealthChecks in
// the cache. So every replica has them, a new leader has what the last one wrote, and no
// series outlives its NodeHealthCheck.
type nodeCollector struct{ controller *Controller }

// Describe implements [prometheus.Collector].
func (nodeCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- nodeDecision
	descriptions <- nodeRecentRemediations
}

// Collect implements [prometheus.Collector].
func (n nodeCollector) Collect(series chan<- prometheus.Metric) {
	nhcs, err := n.controller.nhcs.List(labels.Everything())
	if err != nil {
		series <- prometheus.NewInvalidMetric(nodeDecision, err)
		return
	}
	now := n.controller.clock.Now()
	for _, nhc := range nhcs {
		for node, decision := range decisionsOf(&nhc.Status) {
			series <- gauge(nodeDecision, 1, nhc.Name, node, string(decision.Type), string(decision.Reason))
		}
		for node, episodes := range recentRemediations(&nhc.Status, now) {
			series <- gauge(nodeRecentRemediations, float64(episodes), nhc.Name, node)
		}
	}
}

// decisionsOf returns the decisions by node. A series twice would fail the whole scrape.
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
