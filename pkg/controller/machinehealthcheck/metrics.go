// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/series"
)

// metrics are the collectors of the controller (spec M18).
type metrics struct {
	series *series.Set

	// Names of OpenShift's controller.
	covered, shortCircuit *prometheus.GaugeVec
	deletions             *prometheus.CounterVec

	// Our own ones.
	healthy, unhealthy, waiting, overdue *prometheus.GaugeVec
	started, finished                    *prometheus.CounterVec
	detectionToStart                     *prometheus.HistogramVec
	active                               prometheus.Gauge
	backOffOwners                        prometheus.GaugeFunc
}

// newMetrics registers the collectors. backOffOwners counts the owners whose Machines are deleted with a delay.
func newMetrics(registerer prometheus.Registerer, backOffOwners func() float64) (*metrics, error) {
	set := series.Of("name", "namespace")
	m := &metrics{
		series:           set,
		covered:          set.Gauge("mapi_machinehealthcheck_nodes_covered", "Number of selected Machines."),
		shortCircuit:     set.Gauge("mapi_machinehealthcheck_short_circuit", "1 while more Machines are unhealthy than maxUnhealthy permits, or while Machines cannot be read."),
		deletions:        set.Counter("mapi_machinehealthcheck_remediation_success_total", "Number of accepted requests to delete a Machine."),
		healthy:          set.Gauge("nhc_mhc_healthy_machines", "Number of selected Machines that are healthy."),
		unhealthy:        set.Gauge("nhc_mhc_unhealthy_machines", "Number of selected Machines that are not healthy."),
		waiting:          set.Gauge("nhc_mhc_machines_waiting", "Number of Machines that are not healthy and have no running remediation, by the reason of the decision.", "reason"),
		overdue:          set.Gauge("nhc_mhc_remediations_overdue", "Number of Machines whose remediation has not ended for 30 minutes."),
		started:          set.Counter("nhc_mhc_remediations_started_total", "Number of remediations that have started.", "type"),
		finished:         set.Counter("nhc_mhc_remediations_finished_total", "Number of remediations that have ended with a healthy Machine or a healthy replacement.", "type"),
		detectionToStart: set.Histogram("nhc_mhc_detection_to_start_seconds", "Time from the moment a Machine is unhealthy to the start of its remediation.", 0.01, 16),
		active:           prometheus.NewGauge(prometheus.GaugeOpts{Name: "nhc_mhc_active", Help: "1 while this process handles MachineHealthChecks because it has found no other controller that does."}),
		backOffOwners: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "nhc_mhc_backoff_owners", Help: "Number of owners of Machines, such as MachineSets, whose Machines are deleted with a delay because they fail before they join.",
		}, backOffOwners),
	}
	return m, set.Register(registerer, m.active, m.backOffOwners)
}

func (m *metrics) setActive(active bool) { m.active.Set(series.Truth(active)) }

func labelsOf(key cache.ObjectName) prometheus.Labels {
	return prometheus.Labels{"name": key.Name, "namespace": key.Namespace}
}

// initialize starts the counters with 0, so that their first increase is visible (spec 20.3).
func (m *metrics) initialize(key cache.ObjectName) {
	m.deletions.With(labelsOf(key))
	m.detectionToStart.With(labelsOf(key))
	for _, kind := range []v1beta1.RemediationType{v1beta1.RemediationMachineDeletion, v1beta1.RemediationExternal} {
		m.started.WithLabelValues(key.Name, key.Namespace, string(kind))
		m.finished.WithLabelValues(key.Name, key.Namespace, string(kind))
	}
}

// countBegun counts the remediations that a sync has begun, also if its status cannot be written: no later sync knows
// of them.
func (m *metrics) countBegun(key cache.ObjectName, results []machinehealth.TargetResult) {
	for _, result := range results {
		if !result.Outcome.Begun() {
			continue
		}
		m.started.WithLabelValues(key.Name, key.Namespace, string(result.Plan.Type)).Inc()
		if result.Outcome.Result == remediation.Requested && result.Plan.Type == v1beta1.RemediationMachineDeletion {
			m.deletions.With(labelsOf(key)).Inc()
		}
		if unhealthy := result.Plan.Target.Verdict.Deadline; !unhealthy.IsZero() {
			m.detectionToStart.With(labelsOf(key)).Observe(max(0, result.Outcome.CreatedAt.Sub(unhealthy).Seconds()))
		}
	}
}

// countFinished counts the remediations that have ended since the earlier history. The new history has to be written
// first: otherwise the next sync finds the same ends again.
func (m *metrics) countFinished(key cache.ObjectName, before, after []v1beta1.Remediation) {
	open := map[string]bool{}
	for i := range before {
		open[entryKey(&before[i])] = before[i].Finished == nil
	}
	for i := range after {
		if after[i].Finished != nil && open[entryKey(&after[i])] {
			m.finished.WithLabelValues(key.Name, key.Namespace, string(after[i].RemediationType)).Inc()
		}
	}
}

// entryKey identifies an entry of the history.
func entryKey(entry *v1beta1.Remediation) string {
	return entry.Machine + entry.Detected.UTC().Format(time.RFC3339)
}

// update shows the state of a MachineHealthCheck.
func (m *metrics) update(s *snapshot, entries machinehealth.Entries) {
	key, summary := keyOf(s.check), &s.policy.Summary
	m.covered.With(labelsOf(key)).Set(float64(summary.Expected))
	m.healthy.With(labelsOf(key)).Set(float64(summary.Healthy))
	m.unhealthy.With(labelsOf(key)).Set(float64(summary.Unhealthy()))
	m.shortCircuit.With(labelsOf(key)).Set(series.Truth(!summary.Allowed() || s.policy.Unavailable != nil))
	decided := map[v1alpha1.DecisionReason]int{}
	for _, entry := range entries {
		decided[entry.Decision.Reason]++
	}
	m.overdue.With(labelsOf(key)).Set(float64(decided[v1beta1.DecidedRemediationOverdue]))
	for reason, kind := range v1beta1.DecisionReasons() {
		if kind == v1alpha1.DecisionRemediating || kind == v1alpha1.DecisionExhausted {
			continue
		}
		if decided[reason] > 0 {
			m.waiting.WithLabelValues(key.Name, key.Namespace, string(reason)).Set(float64(decided[reason]))
		} else {
			m.waiting.DeleteLabelValues(key.Name, key.Namespace, string(reason))
		}
	}
}

// forget removes the series of a MachineHealthCheck that is gone.
func (m *metrics) forget(key cache.ObjectName) {
	m.series.Forget(key.Name, key.Namespace)
}
