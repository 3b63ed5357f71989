// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/series"
)

// update brings the metrics of a NodeHealthCheck in line with a reported sync.
func (m *metrics) update(r *syncResult) {
	m.updateState(r)
	m.updateWaiting(r)
	m.countEpisodes(r)
	m.countRemediations(r)
}

// updateState shows the present state.
func (m *metrics) updateState(r *syncResult) {
	name := r.nhc.Name
	m.observedNodes.WithLabelValues(name).Set(float64(r.Summary.Observed))
	m.healthyNodes.WithLabelValues(name).Set(float64(r.Summary.Healthy))
	m.unhealthyNodes.WithLabelValues(name).Set(float64(r.Summary.Unhealthy))
	m.soonUnhealthyNodes.WithLabelValues(name).Set(float64(r.Summary.SoonUnhealthy))
	m.remediatingNodes.WithLabelValues(name).Set(float64(*r.Status.RemediatingNodes))
	m.gateOpen.WithLabelValues(name).Set(series.Truth(r.Gate.Open))
	m.stormActive.WithLabelValues(name).Set(series.Truth(r.Storm.Active))
	m.paused.WithLabelValues(name).Set(series.Truth(len(r.nhc.Spec.PauseRequests) > 0))
	m.disabled.WithLabelValues(name).Set(series.Truth(meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionDisabled)))
	m.overlap.WithLabelValues(name).Set(series.Truth(meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionSelectorOverlap)))
}

func (m *metrics) countEpisodes(r *syncResult) {
	for i := range r.Ended {
		episode := &r.Ended[i]
		m.episodes.WithLabelValues(r.nhc.Name, string(episode.Outcome)).Inc()
		m.episodeDuration.WithLabelValues(r.nhc.Name).Observe(episode.Finished.Sub(episode.Detected.Time).Seconds())
		if kind, failed := failedKind(episode); failed {
			m.failedEpisodes.WithLabelValues(r.nhc.Name, kind).Inc()
		}
	}
}

// failedKind reports whether every remediation of an episode has timed out or failed, and the
// kind of the last one. If a later remediation helped, the failed ones do not count.
func failedKind(episode *v1alpha1.Episode) (kind string, failed bool) {
	for i := range episode.Steps {
		step := &episode.Steps[i]
		if step.Result != v1alpha1.StepTimedOut && step.Result != v1alpha1.StepFailed {
			return "", false
		}
		kind = step.Kind
	}
	return kind, kind != "" && episode.Outcome != v1alpha1.OutcomeReplaced
}

// initializeMetrics starts the metrics of a new spec with 0.
func (c *Controller) initializeMetrics(s *snapshot) {
	if s.state.generation != s.nhc.Generation {
		if s.state.generation == 0 {
			c.metrics.series.Forget(s.nhc.Name) // Those of a former one of its name.
		}
		s.state.generation = s.nhc.Generation
		c.metrics.initialize(s.nhc)
	}
}

// countOutcomes counts how long nodes waited for their first CR. It counts at once, because the sync may be cancelled and its status may not be
// written.
func (m *metrics) countOutcomes(nhc string, results []remediation.NodeResult) {
	for _, result := range results {
		node, outcome := result.Plan.Node, result.Outcome
		if outcome.NewCR() != nil && len(node.Own) == 0 && len(node.Recorded) == 0 && !node.Verdict.Deadline.IsZero() {
			m.detectionToCreation.WithLabelValues(nhc).Observe(max(0, outcome.CreatedAt.Sub(node.Verdict.Deadline).Seconds()))
		}
	}
}

// countRemediations compares the CRs before and after: it counts those that have begun or ended.
func (m *metrics) countRemediations(r *syncResult) {
	name, before, after := r.nhc.Name, remediationsIn(r.state.entries), remediationsIn(r.Entries)
	for uid, cr := range after {
		if _, known := before[uid]; !known {
			m.started.WithLabelValues(name, cr.Resource.Kind).Inc()
		}
	}
	succeeded := r.succeeded()
	for uid, cr := range before {
		if _, goesOn := after[uid]; !goesOn {
			m.end(name, cr, r.isHealthy(cr.node) || succeeded.Has(uid), r.now)
		}
	}
}

// updateWaiting counts the waiting nodes.
func (m *metrics) updateWaiting(r *syncResult) {
	waiting := map[v1alpha1.DecisionReason]int{}
	for i := range r.Entries {
		if decision := r.Entries[i].Decision; decision != nil && decision.Type != v1alpha1.DecisionRemediating {
			waiting[decision.Reason]++
		}
	}
	for reason, decisionType := range v1alpha1.DecisionReasons() {
		if decisionType != v1alpha1.DecisionRemediating {
			m.nodesWaiting.WithLabelValues(r.nhc.Name, string(reason)).Set(float64(waiting[reason]))
		}
	}
}

// end counts the end of a remediation, in exactly one way.
func (m *metrics) end(nhc string, cr listedCR, succeeded bool, now time.Time) {
	kind := cr.Resource.Kind
	m.observeEnd(cr, now)
	switch {
	case cr.TimedOut != nil:
		m.timedOut.WithLabelValues(nhc, kind).Inc()
	case succeeded:
		m.succeeded.WithLabelValues(nhc, kind).Inc()
	default:
		m.cancelled.WithLabelValues(nhc, kind).Inc()
	}
}

// listedCR is a CR in the entry of a node.
type listedCR struct {
	*v1alpha1.Remediation
	node string
}

// remediationsIn returns the CRs in these entries.
func remediationsIn(entries []v1alpha1.UnhealthyNode) map[types.UID]listedCR {
	crs := map[types.UID]listedCR{}
	for i := range entries {
		for j := range entries[i].Remediations {
			cr := &entries[i].Remediations[j]
			crs[cr.Resource.UID] = listedCR{Remediation: cr, node: entries[i].Name}
		}
	}
	return crs
}

// succeeded returns the CRs that have reported success, also those that are gone.
func (r *syncResult) succeeded() sets.Set[types.UID] {
	all := slices.Clone(r.gone)
	for _, result := range r.results {
		all = append(all, result.Plan.Node.Own...)
	}
	crs := sets.New[types.UID]()
	for _, cr := range all {
		if cr.Succeeded == corev1.ConditionTrue {
			crs.Insert(cr.UID)
		}
	}
	return crs
}

// isHealthy reports whether a node exists and is healthy. The sync has seen all nodes whose
// remediations may have ended.
func (r *syncResult) isHealthy(name string) bool {
	node := r.node(name)
	return node != nil && node.Verdict.State == health.Healthy && !node.Constraints.NodeDeleted
}
