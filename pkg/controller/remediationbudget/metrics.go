// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediationbudget

import (
	"fmt"
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// metrics are the collectors of the controller (spec B5.3).
type metrics struct {
	allowed, exhausted, waiting, valid *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"budget"})
	}
	m := &metrics{
		allowed:   gauge("nhc_budget_allowed", "Number of nodes that the RemediationBudget still allows to be taken into remediation, in the group where that are the fewest. +Inf while nothing limits it."),
		exhausted: gauge("nhc_budget_exhausted", "1 while the RemediationBudget keeps a node waiting."),
		waiting:   gauge("nhc_budget_waiting_nodes", "Number of nodes that wait for the RemediationBudget."),
		valid:     gauge("nhc_budget_valid", "0 while the RemediationBudget cannot be evaluated and refuses all nodes that it selects."),
	}
	for _, collector := range m.all() {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{m.allowed, m.exhausted, m.waiting, m.valid}
}

// update reports a budget by its status.
func (m *metrics) update(budget string, status *v1alpha1.RemediationBudgetStatus, waiting int) {
	allowed := math.Inf(1)
	if status.RemediationsAllowed != nil {
		allowed = float64(*status.RemediationsAllowed)
	}
	m.allowed.WithLabelValues(budget).Set(allowed)
	m.exhausted.WithLabelValues(budget).Set(truth(waiting > 0))
	m.waiting.WithLabelValues(budget).Set(float64(waiting))
	m.valid.WithLabelValues(budget).Set(truth(meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionBudgetValid)))
}

// forget removes the series of a budget that is gone.
func (m *metrics) forget(budget string) {
	for _, metric := range m.all() {
		metric.DeleteLabelValues(budget)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
