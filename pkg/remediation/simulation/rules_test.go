// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// The rules that hold for every plan, judged by what the sync has observed, and for
// every request, judged by the world as it is. They say what the specification says in
// other words than the code.

// stepOf returns the index of the step that a CR belongs to, -1 for none (spec 1.4).
func stepOf(steps []remediation.Step, cr *object.CR) int {
	return slices.IndexFunc(steps, func(step remediation.Step) bool {
		if cr.Kind+"Template" != step.Reference.Kind || cr.Namespace != step.Reference.Namespace {
			return false
		}
		template, says := cr.Annotations[v1alpha1.AnnotationTemplateName]
		return (says && template == step.Reference.Name) || (!says && cr.Name == cr.Node())
	})
}

// going reports whether a CR is on its way, as the caches show or as we have asked for.
func going(node *remediation.Node, cr *object.CR) bool {
	return cr.DeletionTimestamp != nil || node.DeletionRequested[cr.UID]
}

// over reports whether a step is over, from its CR and those of later steps (spec 13.2).
func over(node *remediation.Node, steps []remediation.Step, step int) bool {
	var its *object.CR
	for _, cr := range node.Own {
		if going(node, cr) {
			continue
		}
		switch i := stepOf(steps, cr); {
		case i > step:
			return true
		case i == step && (its == nil || cr.CreationTimestamp.Before(&its.CreationTimestamp) || (cr.CreationTimestamp.Equal(&its.CreationTimestamp) && cr.UID < its.UID)):
			its = cr // The oldest one (spec 11.8).
		}
	}
	return its != nil && (its.TimedOut() || recordedTimeout(node, its) != nil)
}

// holdsOn reports whether a NodeHealthCheck holds a lease that has not ended.
func holdsOn(lease *coordinationv1.Lease, nhc string, now time.Time) bool {
	if leaseHolder(lease) != ownerNamed(nhc).LeaseHolder() || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return now.Sub(lease.Spec.RenewTime.Time) <= time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second
}

// hindrance says what forbids to begin or to end a step, or "".
func hindrance(s *sight, w *world, node *remediation.Node) string {
	object := s.objects[node.Name]
	switch {
	case object == nil:
		return "the Node is gone"
	case node.Verdict.State != health.Unhealthy:
		return "the node is not unhealthy (7.5, 16)"
	case len(s.nhc.Spec.PauseRequests) > 0:
		return "paused (10.1)"
	case object.Labels[v1alpha1.LabelExclude] == "true":
		return "excluded (15)"
	case !selects(s.nhc, object):
		return "not selected (17.5)"
	}
	if !s.climate.open {
		return "the gate is closed (8)"
	}
	for _, step := range s.policy.Steps {
		kind, _ := step.RemediationKind()
		if w.brokenTemplates[step.Reference.Name] || w.unreadable[kind.Kind] {
			return "disabled (6)"
		}
	}
	return ""
}

// mayBegin says why no CR may be created, or "".
func mayBegin(s *sight, w *world, node *remediation.Node) string {
	switch {
	case len(node.Unreadable) > 0:
		return "a CR cannot be read (6.8)"
	case node.Lease != nil && leaseHolder(node.Lease) != ownerNamed(s.nhc.Name).LeaseHolder() && leaseValidReference(node.Lease, s.now):
		return "the lease is taken (14.3)"
	case len(node.Own) == 0 && s.before.raging:
		return "a storm (9.6)"
	}
	return hindrance(s, w, node)
}

// checkPlan checks a plan before anything of it is carried out.
func (w *world) checkPlan(s *sight, plan *remediation.NodePlan) {
	node, steps := plan.Node, s.policy.Steps
	violate := func(rule, format string, args ...any) { w.violate(node.Name, rule, format, args...) }
	exists := s.objects[node.Name] != nil
	unhealthy := exists && node.Verdict.State == health.Unhealthy
	creates, deletes, leases, releases := 0, 0, 0, 0
	ended := map[types.UID]bool{}
	w.count(plan)
	for _, action := range plan.Actions {
		if _, renewal := action.(remediation.WriteLease); s.now.Before(node.RetryAt) && (!renewal || begins(*plan)) {
			violate("P1", "an attempt before the next one is due")
		}
		switch action := action.(type) {
		case remediation.Create:
			creates++
			if reason := mayBegin(s, w, node); reason != "" {
				violate("5.2", "a CR, although: %s", reason)
			}
			w.checkStep(s, node, object.ParseCR(action.Object), ended)
			if leases == 0 && !holdsOn(node.Lease, s.nhc.Name, s.now) {
				violate("14.2", "a CR without the lease")
			}
			if len(node.Own) == 0 && node.ControlPlane && s.slotTaken[node.Name] {
				violate("12.2", "the place is taken")
			}
		case remediation.Delete:
			deletes++
			switch {
			case !slices.Contains(node.Own, action.CR):
				violate("16.1", "a foreign CR is deleted")
			case unhealthy || (exists && node.Verdict.State != health.Healthy):
				violate("7.5", "the CR of a node that is not healthy is deleted")
			case going(node, action.CR):
				violate("16.1", "deleted twice")
			case !exists && action.CR.PermanentNodeDeletionExpected == corev1.ConditionTrue && action.CR.Succeeded != corev1.ConditionTrue:
				violate("17.3", "a replacement is awaited")
			}
			if exists {
				w.checkDelay(s, node)
			}
		case remediation.MarkTimedOut:
			i := stepOf(steps, action.CR)
			switch {
			case !slices.Contains(node.Own, action.CR):
				violate("11.4", "a foreign CR is marked")
			case exists && !unhealthy:
				violate("7.5", "a step ends for a node that is not unhealthy")
			case action.CR.TimedOut():
				violate("13.8", "marked twice")
			case action.EndsStep && going(node, action.CR):
				violate("13.2", "a CR that is going stands for no step")
			case action.EndsStep && hindrance(s, w, node) != "":
				violate("5.2", "a step is ended, although: %s", hindrance(s, w, node))
			case action.EndsStep && mayBegin(s, w, node) != "" && i+1 < len(steps):
				violate("5.3", "a step is ended, although: %s", mayBegin(s, w, node))
			case action.EndsStep && over(node, steps, i):
				violate("13.2", "the step was over")
			case action.EndsStep && steps[i].Escalating() && action.CR.Succeeded != corev1.ConditionFalse && s.now.Before(action.CR.CreationTimestamp.Add(steps[i].Timeout)):
				violate("13.3", "the step has time left")
			case action.EndsStep && !steps[i].Escalating() && (leaseHolder(node.Lease) != ownerNamed(s.nhc.Name).LeaseHolder() || s.now.Sub(node.Lease.Spec.AcquireTime.Time) < 30*time.Minute):
				violate("14.7", "the lease is not overdue")
			case !action.EndsStep && exists && !going(node, action.CR):
				violate("13.8", "a CR that goes on is told to stop")
			}
			if action.EndsStep {
				ended[action.CR.UID] = true
			}
		case remediation.WriteLease:
			leases++
		case remediation.ReleaseLease:
			releases++
			if len(node.Unreadable) > 0 {
				violate("6.8", "the lease is released while a CR cannot be read")
			}
		case remediation.RemoveConfirmation:
			if node.Verdict.State != health.Healthy || len(node.Own) > 0 || len(node.Unreadable) > 0 || node.OthersRemediate {
				violate("16.6", "the confirmation is still needed")
			}
		}
	}
	if creates > 1 {
		violate("P9", "two CRs at once")
	}
	if creates > 0 && plan.Refusal() != "" {
		violate("5.4", "created and refused")
	}
	if releases > 0 && (creates > 0 || (leases > 0 && node.RetryAt.IsZero())) {
		violate("14.9", "the lease is written and released")
	}
	if plan.Refusal() == v1alpha1.DecidedLeaseTaken && (node.Lease == nil || !leaseValidReference(node.Lease, s.now)) {
		violate("14.4", "refused for a lease that is not valid")
	}
	for i := range steps[:max(0, len(steps)-1)] {
		if steps[i].Order >= steps[i+1].Order {
			violate("13.1", "the steps are not in order")
		}
	}
	w.checkProgress(s, plan)
	waiting := s.now.Before(node.RetryAt)
	if exists && !waiting && releases+creates == 0 && node.Verdict.State != health.Healthy {
		w.checkRenewal(s, node, leases > 0)
	}
	if unhealthy && len(node.Own) == 0 && len(node.Unreadable) == 0 && (creates == 0) != (plan.Refusal() != "") {
		violate("5.4", "neither a CR nor a refusal")
	}
	if standing := slices.IndexFunc(node.Own, func(cr *object.CR) bool { return !going(node, cr) }); exists && node.Verdict.State == health.Healthy && standing >= 0 && !plan.Delayed && deletes == 0 && !waiting {
		violate("16.1", "the CR of a healthy node stays without a reason")
	}
	if !plan.Recheck.IsZero() && !plan.Recheck.After(s.now) {
		violate("P2", "the next look is at %s, which is now or before", w.clock(plan.Recheck))
	}
}

// checkRenewal checks that the lease of a node with a CR is renewed when it is time.
func (w *world) checkRenewal(s *sight, node *remediation.Node, written bool) {
	reached := -1
	for _, cr := range node.Own {
		reached = max(reached, stepOf(s.policy.Steps, cr))
	}
	last := len(s.policy.Steps) - 1
	if written || reached < 0 || over(node, s.policy.Steps, last) || leaseHolder(node.Lease) != ownerNamed(s.nhc.Name).LeaseHolder() {
		return
	}
	lease, t := node.Lease, 10*time.Minute
	if timeout := s.policy.Steps[reached].Timeout; timeout > 0 {
		t = timeout
	}
	ends := slices.ContainsFunc(node.Own, func(cr *object.CR) bool { // What ends now is not renewed.
		return stepOf(s.policy.Steps, cr) == last && (cr.TimedOut() || cr.Succeeded == corev1.ConditionFalse || !s.now.Before(cr.CreationTimestamp.Add(t)))
	})
	if ends {
		return
	}
	if lease.Spec.AcquireTime == nil || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		w.violate(node.Name, "14.5", "an incomplete lease is not renewed: %s", w.terms(lease))
	}
	if end := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second); end.Before(s.now.Add(t)) {
		w.violate(node.Name, "14.5", "not renewed: %s, T is %s", w.terms(lease), t)
	}
}

// count counts what plans want.
func (w *world) count(plan *remediation.NodePlan) {
	for _, action := range plan.Actions {
		what := strings.TrimPrefix(fmt.Sprintf("%T", action), "remediation.")
		switch action := action.(type) {
		case remediation.Create:
			if len(plan.Node.Own) > 0 {
				what += " of a next step"
			}
		case remediation.MarkTimedOut:
			if action.EndsStep {
				what += " ends a step"
			}
		case remediation.WriteLease:
			switch old := plan.Node.Lease; {
			case old == nil:
				what += " anew"
			case leaseHolder(old) != leaseHolder(action.Lease):
				what += " taken over"
			}
		case remediation.Delete, remediation.ReleaseLease, remediation.RemoveConfirmation:
		}
		w.seen[what]++
	}
	if plan.Refusal() != "" {
		w.seen["refused: "+string(plan.Refusal())]++
	}
	if plan.Exhausted {
		w.seen["exhausted"]++
	}
	if plan.Delayed {
		w.seen["delayed"]++
	}
	if len(plan.Node.Unreadable) > 0 {
		w.seen["unreadable"]++
	}
}

// checkStep checks that no step is skipped, repeated or begun beside what it replaces.
func (w *world) checkStep(s *sight, node *remediation.Node, cr *object.CR, ended map[types.UID]bool) {
	steps := s.policy.Steps
	step := stepOf(steps, cr)
	standing := 0
	for _, own := range node.Own {
		if stepOf(steps, own) == step {
			w.violate(node.Name, "P9", "step %d has %s %s, which is not gone", step, own.Kind, own.Name)
		}
		if stepOf(steps, own) < 0 && !going(node, own) {
			w.violate(node.Name, "P9", "%s %s is of no step and still at work", own.Kind, own.Name)
		}
		if !going(node, own) {
			standing++
		}
	}
	if standing == 0 && len(node.Own) > 0 {
		w.violate(node.Name, "P9", "a new beginning while the old is going")
	}
	if standing == 0 && step != 0 {
		w.violate(node.Name, "13.1", "step %d is the first", step)
	}
	if over(node, steps, step) {
		w.violate(node.Name, "13.2", "step %d is over", step)
	}
	for before := range step {
		endsNow := slices.ContainsFunc(node.Own, func(own *object.CR) bool { return stepOf(steps, own) == before && ended[own.UID] })
		if !over(node, steps, before) && !endsNow {
			w.violate(node.Name, "13.2", "step %d is not over when step %d begins", before, step)
		}
	}
	for _, other := range node.Foreign {
		if other.Kind == cr.Kind && other.Namespace == cr.Namespace && (other.Name == cr.Name || (other.Node() == node.Name && stepOf(steps, other) == step)) {
			w.violate(node.Name, "11.4", "the foreign %s %s is in the way", other.Kind, other.Name)
		}
	}
}

// checkDelay checks healthyDelay against what status and the Node say.
func (w *world) checkDelay(s *sight, node *remediation.Node) {
	delay := s.nhc.Spec.HealthyDelay
	if delay == nil || delay.Duration == 0 || hasConfirmation(s.objects[node.Name]) || !slices.ContainsFunc(node.Own, func(cr *object.CR) bool { return !going(node, cr) }) {
		return
	}
	if delay.Duration < 0 {
		w.violate(node.Name, "16.4", "a negative delay never ends")
	}
	if node.HealthySince.IsZero() || s.now.Sub(node.HealthySince) < delay.Duration {
		w.violate(node.Name, "16.4", "deleted %s after %s, healthyDelay is %s", w.clock(s.now), w.clock(node.HealthySince), delay.Duration)
	}
	// The Node itself says when it became healthy, also where no sync saw that it was not.
	// Whole seconds are ours to lose.
	since := s.objects[node.Name].Status.Conditions[0].LastTransitionTime.Time
	if s.now.Sub(since) < delay.Duration-time.Second {
		w.violate(node.Name, "P11", "deleted %s, healthy since %s", w.clock(s.now), w.clock(since))
	}
	if unwell := w.unwell[s.nhc.Name+"/"+node.Name]; s.now.Sub(unwell) < delay.Duration-time.Second {
		w.violate(node.Name, "P11", "deleted %s, seen unwell at %s, healthy since %s", w.clock(s.now), w.clock(unwell), w.clock(since))
	}
}
