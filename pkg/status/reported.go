// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Reported has the transitions that events have reported, so that each is reported once.
type Reported struct {
	gateClosed, storm, paused, upgrading bool
	specProblem                          string
	// detected holds the nodes whose episodes go on, in order of name.
	detected []string
	// created holds the CRs that existed, also those that the status had no room for.
	created sets.Set[types.UID]
	// exhausted holds the nodes whose last step was reported as over in this episode.
	exhausted sets.Set[string]
	// failed holds the CRs whose failure was reported.
	failed sets.Set[types.UID]
	// refused holds the refusals that have events of their own.
	refused      map[string]v1alpha1.DecisionReason
	invalidLabel sets.Set[string]
	// old holds the CRs that were reported as old.
	old sets.Set[types.UID]
}

// wasDetected reports whether it was reported that a node is unhealthy.
func (r *Reported) wasDetected(node string) bool {
	_, found := slices.BinarySearch(r.detected, node)
	return found
}

// RecallReported returns the reported transitions by a status, as after a restart. What a decision says was told (spec 19.3).
func RecallReported(status *v1alpha1.NodeHealthCheckStatus) Reported {
	told := Reported{
		created: sets.New[types.UID](), exhausted: sets.New[string](), failed: failedIn(status), refused: map[string]v1alpha1.DecisionReason{},
		invalidLabel: sets.New[string](), old: sets.New[types.UID](),
	}
	for i := range status.UnhealthyNodes {
		entry := &status.UnhealthyNodes[i]
		if entry.Decision == nil {
			continue
		}
		reason, begins := entry.Decision.Reason, len(entry.Remediations) == 0
		told.refused[entry.Name] = reason
		told.gateClosed = told.gateClosed || (begins && reason == v1alpha1.DecidedGateClosed)
		told.storm = told.storm || (begins && reason == v1alpha1.DecidedStormActive)
		told.upgrading = told.upgrading || reason == v1alpha1.DecidedClusterUpgrading
		if reason == v1alpha1.DecidedNoTemplateLeft {
			told.exhausted.Insert(entry.Name)
		}
	}
	return told
}

// WithCreated returns the reported transitions, with the creation of these CRs.
func (r Reported) WithCreated(crs []*object.CR) Reported {
	r.created = r.created.Clone()
	for _, cr := range crs {
		r.created.Insert(cr.UID)
	}
	return r
}

// failedIn returns the CRs of the nodes whose step is over by a status: if one has failed, that was told.
func failedIn(status *v1alpha1.NodeHealthCheckStatus) sets.Set[types.UID] {
	failed := sets.New[types.UID]()
	for i := range status.UnhealthyNodes {
		entry := &status.UnhealthyNodes[i]
		if entry.Decision == nil || entry.Decision.Type == v1alpha1.DecisionRemediating {
			continue
		}
		for j := range entry.Remediations {
			failed.Insert(entry.Remediations[j].Resource.UID)
		}
	}
	return failed
}

// Reported returns the reported transitions after this sync. It forgets states that have
// ended, so that they are reported again when they come back.
func (r *Report) Reported() Reported {
	context, before := &r.in.Policy.Context, &r.in.Before.Reported
	now := Reported{
		gateClosed:   r.refused(v1alpha1.DecidedGateClosed),
		storm:        r.refused(v1alpha1.DecidedStormActive),
		paused:       len(r.in.Check.Spec.PauseRequests) > 0 && !context.Constraints.Upgrading,
		upgrading:    context.Constraints.Upgrading,
		detected:     make([]string, 0, len(r.in.Results)),
		created:      sets.New[types.UID](),
		exhausted:    sets.New[string](),
		failed:       sets.New[types.UID](),
		refused:      map[string]v1alpha1.DecisionReason{},
		invalidLabel: sets.New[string](),
		old:          sets.New[types.UID](),
	}
	for _, cr := range r.oldCRs {
		now.old.Insert(cr.UID)
	}
	for _, cr := range r.in.Gone { // A later state of it may still be on its way.
		now.created.Insert(cr.UID)
	}
	if r.refused(v1alpha1.DecidedInvalidSpec) {
		now.specProblem = context.SpecProblem
	}
	for _, result := range r.in.Results {
		plan, node := result.Plan, result.Plan.Node
		name := node.Name
		// An episode goes on while the node hesitates, and while it has a CR.
		if detects(plan) || (before.wasDetected(name) && lasts(plan)) {
			now.detected = append(now.detected, name)
			if plan.ExhaustedBy(result.Outcome) || before.exhausted.Has(name) {
				now.exhausted.Insert(name)
			}
		}
		for _, cr := range remediationsAfter(result) {
			now.created.Insert(cr.UID)
		}
		for _, cr := range node.Own {
			if cr == plan.Failed || before.failed.Has(cr.UID) {
				now.failed.Insert(cr.UID)
			}
		}
		if node.Constraints.NodeDeleted {
			continue // As in nodeTransitions.
		}
		if _, reports := skippedForNode(plan); reports {
			now.refused[name] = plan.Refusal()
		}
		if ignoresLabel(plan) {
			now.invalidLabel.Insert(name)
		}
	}
	return now
}

// lasts reports whether the episode of a node goes on although it is not unhealthy.
func lasts(plan *remediation.NodePlan) bool {
	return plan.Node.Verdict.State == health.SoonUnhealthy || len(plan.Node.Own) > 0
}
