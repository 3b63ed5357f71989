// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediationbudget

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/series"
)

// metrics are the collectors of the controller (spec B5.3).
type metrics struct {
	series *series.Set

	allowed, waiting, valid *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	set := series.Of("budget")
	m := &metrics{
		series:  set,
		allowed: set.Gauge("nhc_budget_allowed", "Number of nodes that the RemediationBudget still allows to be taken into remediation, in the group where that are the fewest. +Inf while nothing limits it."),
		waiting: set.Gauge("nhc_budget_waiting_nodes", "Number of nodes that wait for the RemediationBudget."),
		valid:   set.Gauge("nhc_budget_valid", "0 while the RemediationBudget cannot be evaluated and refuses all nodes that it selects."),
	}
	return m, set.Register(registerer)
}

// update reports a budget by its status.
func (m *metrics) update(budget string, status *nhcv1alpha1.RemediationBudgetStatus, waiting int) {
	allowed := math.Inf(1)
	if status.RemediationsAllowed != nil {
		allowed = float64(*status.RemediationsAllowed)
	}
	m.allowed.WithLabelValues(budget).Set(allowed)
	m.waiting.WithLabelValues(budget).Set(float64(waiting))
	m.valid.WithLabelValues(budget).Set(series.Truth(meta.IsStatusConditionTrue(status.Conditions, nhcv1alpha1.ConditionBudgetValid)))
}

// forget removes the series of a budget that is gone.
func (m *metrics) forget(budget string) {
	m.series.Forget(budget)
}
