// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// round is one sync after it has acted: all that is to be reported.
type round struct {
	nhc      *v1alpha1.NodeHealthCheck
	world    *world
	plans    []remediation.NodePlan
	outcomes []remediation.Outcome
	// ledger has the episodes after the sync, and ended those that it has ended.
	ledger *history.Ledger
	ended  []v1alpha1.Episode
	// entries are those of all nodes, also of those that status is too small for.
	entries []v1alpha1.UnhealthyNode
	// decisions are those of the entries, by node.
	decisions map[string]v1alpha1.Decision
	status    *v1alpha1.NodeHealthCheckStatus
	now       time.Time
}

// report writes the status, and then tells of the transitions. Deletion requests
// are told of in any case: no later sync would know of them.
func (c *Controller) report(ctx context.Context, r *round, memory *memory) error {
	c.announcer.announce(r.nhc, removals(r.world, r.plans, r.outcomes))
	begun := c.clock.Now()
	written, err := c.writeStatus(ctx, r.nhc, r.status)
	if err != nil {
		memory.contradicted = apierrors.IsConflict(err)
		return err
	}
	if written {
		ended := c.clock.Now()
		memory.lastWrite = writeLatency{ended: ended, took: ended.Sub(begun)}
	}
	transitions := r.transitions(memory)
	c.metrics.update(r, memory)
	c.announcer.announce(r.nhc, transitions)
	r.logTransitions(ctx, transitions, memory)
	r.logDecisions(ctx, memory)
	r.remember(memory)
	c.lastStates.used(r.nhc.Name, r.world.gone)
	return nil
}

// remember keeps what the next report compares with.
func (r *round) remember(memory *memory) {
	memory.announced = r.announcedNow(memory)
	memory.decisions = r.decisions
	memory.ledger = r.ledger
	memory.gateClosed = !r.world.gate.Open
	// The end of those that are gone has been reported, and that it was our doing.
	requested := map[types.UID]bool{}
	for i := range r.plans {
		for _, cr := range r.plans[i].Node.Own {
			if memory.deletionRequested[cr.UID] {
				requested[cr.UID] = true
			}
		}
	}
	for _, uid := range r.world.lost {
		requested[uid] = true
	}
	memory.deletionRequested = requested
}

func (r *round) node(name string) *corev1.Node { return r.world.objects[name] }

// removals tells of every deletion request that was issued.
func removals(w *world, plans []remediation.NodePlan, outcomes []remediation.Outcome) []event {
	var all []event
	for i := range outcomes {
		for _, cr := range outcomes[i].Deleted {
			all = append(all, remediationRemoved(w.objects[plans[i].Node.Name], cr))
		}
	}
	return all
}

// transitions compares the status before and after, and where status does not show
// it, what was announced before.
func (r *round) transitions(memory *memory) []event {
	var all []event
	all = append(all, r.disabledTransition()...)
	switch paused := len(r.nhc.Spec.PauseRequests) > 0; {
	case r.world.upgrading():
		if !memory.announced.upgrading {
			all = append(all, skippedForUpgrade())
		}
	case paused && !memory.announced.paused && r.nhc.Status.Phase != v1alpha1.PhasePaused:
		all = append(all, skippedForPause())
	}
	all = append(all, r.nodeTransitions(memory)...)
	for _, cr := range r.oldCRs() {
		if !memory.announced.old.Has(cr.UID) {
			all = append(all, oldRemediation(r.node(cr.Node()), cr))
		}
	}
	if r.world.specProblem != "" && r.world.specProblem != memory.announced.specProblem && r.refused(remediation.RefusedInvalidSpec) {
		all = append(all, skippedForSpec(r.world.specProblem))
	}
	if !memory.announced.gateClosed && r.refused(remediation.RefusedGateClosed) {
		all = append(all, skippedForGate(r.world.gate))
	}
	all = append(all, r.stormTransitions()...)
	if !memory.announced.storm && r.refused(remediation.RefusedStormActive) {
		all = append(all, skippedForStorm())
	}
	return all
}

// stormTransitions compares the storm before and after (spec 9).
func (r *round) stormTransitions() []event {
	before, after := health.StormOf(&r.nhc.Status), r.world.storm
	var all []event
	if !before.Active && after.Active {
		all = append(all, stormStarted())
	}
	if before.CalmSince.IsZero() && !after.CalmSince.IsZero() {
		all = append(all, stormCooldownStarted())
	}
	if before.Active && !after.Active {
		all = append(all, stormEnded())
	}
	return all
}

// disabledTransition compares the condition Disabled (spec 6.3).
func (r *round) disabledTransition() []event {
	before := meta.FindStatusCondition(r.nhc.Status.Conditions, v1alpha1.ConditionDisabled)
	after := meta.FindStatusCondition(r.status.Conditions, v1alpha1.ConditionDisabled)
	switch {
	case after == nil:
		return nil
	case after.Status == metav1.ConditionTrue:
		if before == nil || before.Status != metav1.ConditionTrue || before.Reason != after.Reason {
			return []event{disabled(after.Reason, after.Message)}
		}
	case before == nil || before.Status == metav1.ConditionTrue:
		return []event{enabled()}
	}
	return nil
}

// nodeTransitions tells which nodes became unhealthy, got a CR, or are exempt.
func (r *round) nodeTransitions(memory *memory) []event {
	listed, shown, ended := sets.New[string](), sets.New[types.UID](), sets.New[types.UID]()
	for i := range r.nhc.Status.UnhealthyNodes {
		entry := &r.nhc.Status.UnhealthyNodes[i]
		listed.Insert(entry.Name)
		for j := range entry.Remediations {
			shown.Insert(entry.Remediations[j].Resource.UID)
			if entry.Remediations[j].TimedOut != nil {
				ended.Insert(entry.Remediations[j].Resource.UID)
			}
		}
	}
	var all []event
	for i := range r.plans {
		plan := &r.plans[i]
		node := r.node(plan.Node.Name)
		if node == nil {
			continue // A deleted Node gets no events.
		}
		if r.detects(plan) && !listed.Has(node.Name) && !memory.announced.detected.Has(node.Name) {
			all = append(all, detectedUnhealthy(node, plan.Node.Verdict))
		}
		if skipped, tells := skippedForNode(node, plan.Refusal); tells && memory.announced.refused[node.Name] != plan.Refusal {
			all = append(all, skipped)
		}
		if plan.ExhaustedBy(&r.outcomes[i]) && r.endedNow(i, ended) && !memory.announced.exhausted.Has(node.Name) {
			all = append(all, noTemplateLeft(r.nhc.Name, node))
		}
		if cr := plan.Failed; cr != nil && !memory.announced.failed.Has(cr.UID) {
			all = append(all, remediationFailed(node, cr))
		}
		if r.ignoresLabel(plan) && !memory.announced.invalidLabel.Has(node.Name) {
			all = append(all, invalidNodeLabel(node))
		}
		for _, cr := range slices.Concat(plan.Node.Own, r.created(i)) {
			if _, known := memory.remediations[cr.UID]; !known && !shown.Has(cr.UID) && !cr.Deleting() {
				all = append(all, remediationCreated(node, cr.Kind))
			}
		}
	}
	return all
}

func (r *round) created(i int) []*remediation.CR {
	if cr := r.outcomes[i].Created; cr != nil {
		return []*remediation.CR{cr}
	}
	return nil
}

// detects tells whether the node is unhealthy and ours to say so.
func (r *round) detects(plan *remediation.NodePlan) bool {
	return plan.Node.Verdict.State == health.Unhealthy && !plan.Node.Circumstances.Unselected
}

// endedNow tells whether a step of a node ended that status did not show as ended.
func (r *round) endedNow(i int, ended sets.Set[types.UID]) bool {
	return slices.ContainsFunc(r.plans[i].Node.Own, func(cr *remediation.CR) bool {
		_, now := r.outcomes[i].TimedOut[cr.UID]
		return (now || cr.TimedOut()) && !ended.Has(cr.UID)
	})
}

// oldCRs returns the own CRs that are older than 48 hours (spec 17.6).
func (r *round) oldCRs() []*remediation.CR {
	var old []*remediation.CR
	for i := range r.plans {
		for _, cr := range r.plans[i].Node.Own {
			if !r.now.Before(cr.CreationTimestamp.Add(v1alpha1.OldRemediationAge)) {
				old = append(old, cr)
			}
		}
	}
	return old
}

// ignoresLabel tells whether the node carries the exclusion label with an empty
// value, which has no effect (spec 15.2).
func (r *round) ignoresLabel(plan *remediation.NodePlan) bool {
	node := r.node(plan.Node.Name)
	if node == nil || plan.Node.Verdict.State != health.Unhealthy {
		return false
	}
	value, present := node.Labels[v1alpha1.LabelExclude]
	return present && value == ""
}

// refused tells whether some node without CR is kept waiting for this reason.
func (r *round) refused(refusal remediation.Refusal) bool {
	for i := range r.plans {
		if r.plans[i].Refusal == refusal && len(r.plans[i].Node.Own) == 0 {
			return true
		}
	}
	return false
}

// announcedNow returns what has been announced once this round is reported. What
// no longer holds is forgotten, so that it is told again when it comes back.
func (r *round) announcedNow(memory *memory) announced {
	now := announced{
		gateClosed:   r.refused(remediation.RefusedGateClosed),
		storm:        r.refused(remediation.RefusedStormActive),
		paused:       len(r.nhc.Spec.PauseRequests) > 0 && !r.world.upgrading(),
		upgrading:    r.world.upgrading(),
		detected:     sets.New[string](),
		exhausted:    sets.New[string](),
		failed:       sets.New[types.UID](),
		refused:      map[string]remediation.Refusal{},
		invalidLabel: sets.New[string](),
		old:          sets.New[types.UID](),
	}
	for _, cr := range r.oldCRs() {
		now.old.Insert(cr.UID)
	}
	if r.refused(remediation.RefusedInvalidSpec) {
		now.specProblem = r.world.specProblem
	}
	for i := range r.plans {
		plan := &r.plans[i]
		name := plan.Node.Name
		// An episode goes on while the node hesitates, and while it has a CR.
		if r.detects(plan) || (memory.announced.detected.Has(name) && r.lasts(plan)) {
			now.detected.Insert(name)
			if plan.ExhaustedBy(&r.outcomes[i]) || memory.announced.exhausted.Has(name) {
				now.exhausted.Insert(name)
			}
		}
		for _, cr := range plan.Node.Own {
			if cr == plan.Failed || memory.announced.failed.Has(cr.UID) {
				now.failed.Insert(cr.UID)
			}
		}
		if plan.Refusal != "" {
			now.refused[name] = plan.Refusal
		}
		if r.ignoresLabel(plan) {
			now.invalidLabel.Insert(name)
		}
	}
	return now
}

func (r *round) lasts(plan *remediation.NodePlan) bool {
	return plan.Node.Verdict.State == health.SoonUnhealthy || len(plan.Node.Own) > 0
}
