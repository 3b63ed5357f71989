// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// checkMetrics compares the metrics of the leader with the status of each NodeHealthCheck, at rest (spec 20.3). A
// NodeHealthCheck that is gone has no metrics.
func (c *cluster) checkMetrics() {
	leader := c.leader()
	if leader == nil {
		return
	}
	families, err := leader.registry.Gather()
	require.NoError(c.t, err)
	stated, values := map[string]*v1alpha1.NodeHealthCheckStatus{}, map[string]float64{}
	for _, name := range c.nhcNames() {
		stated[name] = &c.nhc(name).Status
	}
	violate := func(nhc, format string, args ...any) {
		panic(broken{rules.Violation{Rule: "20.3", NHC: nhc, Text: fmt.Sprintf(format, args...), Timeline: c.judge.Timeline("", nhc)}})
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() != "nodehealthcheck" {
					continue
				}
				if stated[label.GetValue()] == nil {
					violate(label.GetValue(), "%s is left of a NodeHealthCheck that is gone", family.GetName())
				}
				if gauge := metric.GetGauge(); gauge != nil {
					values[family.GetName()+" "+label.GetValue()] += gauge.GetValue() // Over all reasons.
				}
			}
		}
	}
	for name, status := range stated {
		for metric, want := range metricsOf(status) {
			if got, given := values[metric+" "+name]; given != (want >= 0) || (given && int(got) != want) {
				violate(name, "%s is %v, and by status %d", metric, got, want)
			}
		}
	}
}

// metricsOf returns the values of metrics that a status gives, -1 where it gives none.
func metricsOf(status *v1alpha1.NodeHealthCheckStatus) map[string]int {
	number := func(n *int32) int {
		if n == nil {
			return -1
		}
		return int(*n)
	}
	is := func(condition string) int {
		if meta.IsStatusConditionTrue(status.Conditions, condition) {
			return 1
		}
		return 0
	}
	return map[string]int{
		"nhc_observed_nodes": number(status.ObservedNodes), "nhc_healthy_nodes": number(status.HealthyNodes),
		"nhc_unhealthy_nodes": number(status.UnhealthyNodeCount), "nhc_soon_unhealthy_nodes": number(status.SoonUnhealthyNodes),
		"nhc_remediating_nodes": number(status.RemediatingNodes),
		"nhc_disabled":          is(v1alpha1.ConditionDisabled), "nhc_storm_active": is(v1alpha1.ConditionStormActive), "nhc_selector_overlap": is(v1alpha1.ConditionSelectorOverlap),
	}
}
