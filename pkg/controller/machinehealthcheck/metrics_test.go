// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// TestMachineMetrics: gauges show the counts and decisions, an end is counted once, and all series go with their
// MachineHealthCheck (spec M18.1, M18.2).
func TestMachineMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, func() float64 { return 2 })
	require.NoError(t, err)
	values := func() map[string]float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		found := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue(); value > 0 {
					found[family.GetName()] += value
				}
			}
		}
		return found
	}
	s := &snapshot{check: &v1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: "machines"}}}
	s.policy.Criteria = &machinehealth.Criteria{}
	s.policy.Summary = machinehealth.Summary{Expected: 5, Healthy: 3, Limit: 1}
	entries := machinehealth.Entries{}
	for name, reason := range map[string]v1alpha1.DecisionReason{"a": v1beta1.DecidedRemediationOverdue, "b": v1alpha1.DecidedExcluded} {
		entries[name] = &v1beta1.UnhealthyMachine{Name: name}
		entries[name].Decision.Reason = reason
	}
	m.update(s, entries)
	open := []v1beta1.Remediation{{Machine: "a", RemediationType: v1beta1.RemediationMachineDeletion}}
	ended := []v1beta1.Remediation{{Machine: "a", RemediationType: v1beta1.RemediationMachineDeletion, Finished: new(metav1.NewTime(time.Unix(1, 0)))}}
	m.countFinished(keyOf(s.check), open, ended)
	m.countFinished(keyOf(s.check), ended, ended)
	require.Equal(t, map[string]float64{
		"mapi_machinehealthcheck_nodes_covered": 5, "mapi_machinehealthcheck_short_circuit": 1, "nhc_mhc_healthy_machines": 3, "nhc_mhc_unhealthy_machines": 2,
		"nhc_mhc_remediations_overdue": 1, "nhc_mhc_machines_waiting": 1, "nhc_mhc_remediations_finished_total": 1, "nhc_mhc_backoff_owners": 2,
	}, values())
	m.forget(keyOf(s.check))
	require.Equal(t, map[string]float64{"nhc_mhc_backoff_owners": 2}, values())
}
