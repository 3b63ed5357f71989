// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// calm takes everything away that blocks a remediation, or goes wrong.
func (w *world) calm() {
	w.moves++
	w.faults, w.meddling = 0, 0
	clear(w.denied)
	clear(w.unreadable)
	clear(w.brokenTemplates)
	for _, name := range sorted(w.nhcs.live) {
		w.changeSpec(name, func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.PauseRequests = nil
			spec.MinHealthy, spec.MaxUnhealthy = new(intstr.FromInt32(0)), nil
			if w.chance(50) {
				spec.StormRecoveryThreshold = nil // It may keep up a storm for ever.
			}
			if spec.HealthyDelay != nil && spec.HealthyDelay.Duration < 0 {
				spec.HealthyDelay = &metav1.Duration{Duration: 5 * time.Minute}
			}
		})
	}
	for _, name := range sorted(w.nodes.live) {
		if w.node(name).Labels[v1alpha1.LabelExclude] != "" {
			w.changeNode(name, func(node *corev1.Node) { delete(node.Labels, v1alpha1.LabelExclude) })
		}
	}
	for _, cr := range w.crs() {
		if len(cr.Owners()) == 0 {
			w.changeCR(cr, func(object *unstructured.Unstructured) {
				object.SetFinalizers(nil)
				object.SetDeletionTimestamp(new(w.seconds()))
			})
		}
	}
	w.process.soil()
}

// release lets remediators give up what is being deleted, and finish what waits for a
// Node that is gone.
func (w *world) release() bool {
	before := w.version
	for _, cr := range w.crs() {
		if cr.Deleting() || (w.node(cr.Node()) == nil && cr.PermanentNodeDeletionExpected == corev1.ConditionTrue && cr.Succeeded == "") {
			remediators[cr.Kind](w, cr)
		}
	}
	w.collect()
	if w.version != before {
		w.moves++
	}
	return w.version != before
}

// settle runs the controller by events and timers alone, for some time.
func (w *world) settle(span time.Duration) {
	end := w.now.Add(span)
	w.settleUntil(end, w.release)
	w.now = end
}

// settleUntil is settle, where others may do something, and tell that they have, when
// the controller is at rest.
func (w *world) settleUntil(end time.Time, others func() bool) {
	for syncs := 0; ; syncs++ {
		if syncs > 5000 {
			w.violate("", "P3", "the controller does not come to rest")
		}
		p := w.process
		p.catchUp()
		w.syncSomebodyByName()
		p = w.process
		if len(p.dirty) > 0 || !p.current() || others() {
			continue
		}
		var next time.Time
		for _, name := range sorted(p.wake) {
			next = health.Earliest(next, p.wake[name])
		}
		if next.IsZero() || next.After(end) {
			return
		}
		w.now = next
		for name, at := range p.wake {
			if !at.IsZero() && !w.now.Before(at) {
				p.dirty[name] = true
			}
		}
	}
}

func (w *world) syncSomebodyByName() {
	if due := sorted(w.process.dirty); len(due) > 0 {
		w.process.sync(due[0])
	}
}

// checkExhausted checks that every unhealthy node has come to the end of what each of
// the NodeHealthChecks can do for it.
func (w *world) checkExhausted() {
	for _, name := range sorted(w.nhcs.live) {
		nhc := w.nhc(name)
		s := w.process.observe(w.truth(), nhc, w.now)
		w.process.takePlace(w.truth(), s, false)
		for _, node := range s.nodes {
			plan := s.plan(&node, w.now)
			_, renewal := append(plan.Actions, nil)[0].(remediation.WriteLease)
			if len(plan.Actions) > 0 && (!renewal || plan.Begins()) {
				w.violate(node.Name, "P2", "nobody woke %s for %T", name, plan.Actions[0])
			}
			if node.Verdict.State == health.SoonUnhealthy {
				w.violate(node.Name, "7.4", "nobody woke %s", name)
			}
			if node.Verdict.State != health.Unhealthy || node.Constraints.Unselected || node.Constraints.NodeDeleted {
				continue
			}
			switch {
			case plan.Exhausted:
				w.checkSteps(s, &node)
			case plan.Refusal() == v1alpha1.DecidedStormActive && w.keepsOn(s):
			case plan.Refusal() == v1alpha1.DecidedForeignRemediation, plan.Refusal() == v1alpha1.DecidedControlPlaneBusy:
			case plan.Refusal() == v1alpha1.DecidedLeaseTaken && w.heldAtWork(node.Lease, node.Name):
			case slices.ContainsFunc(node.Own, func(cr *object.CR) bool { return stepOf(s.policy.Steps, cr) < 0 || onItsWay(&node, cr) }):
			case len(s.policy.Steps) == 1 && !s.policy.Steps[0].Escalating() && len(node.Own) > 0 && leaseHolder(node.Lease) != ownerNamed(name).LeaseHolder():
				// 14.8: a classic CR without its lease goes on for ever.
			default:
				w.violate(node.Name, "P12", "%s neither remediates the node nor has done all it can: %d CRs, refused: %q", name, len(node.Own), plan.Refusal())
			}
		}
	}
}

// heldAtWork reports whether a lease is held by a NodeHealthCheck that has a CR.
func (w *world) heldAtWork(lease *coordinationv1.Lease, node string) bool {
	nhc, ok := object.NHCOfHolder(leaseHolder(lease))
	return ok && len(w.ownCRs(nhc, node)) > 0
}

// keepsOn reports whether there is a storm that goes on because of its threshold: an open
// gate alone does not end that (spec 9.4).
func (w *world) keepsOn(s *sight) bool {
	byThreshold, _ := restless(&s.nhc.Spec, s.climate)
	return byThreshold && w.tempests[stormKey(s.nhc)].raging
}

// checkSteps checks the CRs of a node for which no step is left.
func (w *world) checkSteps(s *sight, node *remediation.Node) {
	for i := range s.policy.Steps {
		at := slices.IndexFunc(node.Own, func(cr *object.CR) bool { return stepOf(s.policy.Steps, cr) == i })
		if at < 0 && i+1 == len(s.policy.Steps) {
			w.violate(node.Name, "13.6", "the last step has no CR")
		}
	}
	if held := leaseHolder(node.Lease) == ownerNamed(s.nhc.Name).LeaseHolder(); held && (leaseValidReference(node.Lease, w.now) || !s.policy.Steps[0].Escalating()) {
		w.violate(node.Name, "13.6 14.7", "the lease is still held: %s", w.terms(node.Lease))
	}
}

// cure makes all nodes healthy.
func (w *world) cure() {
	w.moves++
	for _, name := range sorted(w.nodes.live) {
		w.setReady(name, corev1.ConditionTrue)
	}
}

// checkEmpty checks that nothing is left.
func (w *world) checkEmpty() {
	for _, name := range sorted(w.nhcs.live) {
		w.checkNoStorm(w.nhc(name))
	}
	hanging := 0
	for _, cr := range w.crs() {
		hangs := cr.Deleting() && w.node(cr.Node()) == nil // Its finalizer is not ours.
		if w.node(cr.Node()) == nil && cr.PermanentNodeDeletionExpected == corev1.ConditionTrue && cr.Succeeded == corev1.ConditionFalse {
			return // 17.3: it waits for a success that will never come.
		}
		if hangs {
			hanging++
		}
		found := slices.ContainsFunc(cr.Owners(), func(nhc string) bool {
			return slices.ContainsFunc(remediation.Steps(&w.nhc(nhc).Spec), func(s remediation.Step) bool { return s.Reference.Kind == cr.Kind+"Template" })
		})
		if found && !hangs { // Where else nobody looks, see 6.8.
			w.violate(cr.Node(), "P12", "%s %s is left, owned by %v", cr.Kind, cr.Name, cr.Owners())
		}
	}
	for _, name := range sorted(w.leases.live) {
		lease := w.leases.live[name].lease
		if _, held := object.NHCOfHolder(leaseHolder(lease)); held {
			w.violate("", "P12 14.9", "lease %s is left %s", name, w.terms(lease))
		}
	}
	for _, name := range sorted(w.nodes.live) {
		selected := slices.ContainsFunc(sorted(w.nhcs.live), func(nhc string) bool { return selects(w.nhc(nhc), w.node(name)) })
		free := !slices.ContainsFunc(w.crs(), func(cr *object.CR) bool { return cr.Node() == name })
		if selected && free && hasConfirmation(w.node(name)) {
			w.violate(name, "16.6", "the confirmation is left")
		}
	}
	for _, name := range sorted(w.nhcs.live) {
		status := w.nhc(name).Status
		if len(status.UnhealthyNodes) > 0 || *status.HealthyNodes != *status.ObservedNodes {
			w.violate("", "P12 P4", "status of %s: %s", name, w.summary(&status))
		}
		if at := w.process.wake[name]; !at.IsZero() && hanging == 0 {
			w.violate("", "P2", "%s is woken at %s for nothing", name, w.clock(at))
		}
	}
	requests := w.requests
	w.process.soil()
	w.settle(time.Hour)
	if w.requests != requests {
		w.violate("", "P3", "something is written though nothing has changed")
	}
}
