// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// checkCreate checks a request to create a CR.
func (w *world) checkCreate(cr *object.CR) {
	s, node := w.doing.sight, w.doing.plan.Node
	if len(cr.Finalizers) > 0 || !cr.OwnedBy(ownerNamed(s.nhc.Name)) || cr.Node() != node.Name {
		w.violate(node.Name, "11.1", "content of %s %s", cr.Kind, cr.Name)
	}
	step := stepOf(s.policy.Steps, cr)
	if w.remediations[cr.Kind].live[crKey(cr)] != nil {
		return // The name is the lock.
	}
	if w.undisturbed(s) {
		for _, own := range w.ownCRs(s.nhc.Name, node.Name) {
			if stepOf(s.policy.Steps, own) == step {
				w.violate(node.Name, "P9", "%s %s is a second CR of step %d, the first one is %s", cr.Kind, cr.Name, step, own.Name)
			}
		}
		if lease := w.lease(node.Name); lease == nil || leaseHolder(lease) != ownerNamed(s.nhc.Name).LeaseHolder() {
			w.violate(node.Name, "14.2", "a CR without holding the lease")
		}
	}
	if node.ControlPlane && len(node.Own) == 0 && !s.aged {
		w.checkPlace(node)
	}
	for _, own := range w.ownCRs(s.nhc.Name, node.Name) {
		// However stale the caches are: what we have created ourselves has the name.
		if w.created[own.UID] > 0 && stepOf(s.policy.Steps, own) == step {
			w.violate(node.Name, "P9", "step %d gets a second CR beside %s", step, own.Name)
		}
	}
}

// checkPlace checks that no other control plane node is under remediation. One whose
// CR is going may have become a Node again this very moment, and of one that cannot be
// read and that no status names nobody knows.
func (w *world) checkPlace(node *remediation.Node) {
	for _, cr := range w.crs() {
		other := w.node(cr.Node())
		if cr.Node() != node.Name && other != nil && controlPlane(other) && w.created[cr.UID] > 0 && !cr.Deleting() && !w.unreadable[cr.Kind] {
			w.violate(node.Name, "12.2", "%s has the place by %s %s", cr.Node(), cr.Kind, cr.Name)
		}
	}
}

// undisturbed reports whether the caches were up to date when the plan was made and
// nobody has moved since.
func (w *world) undisturbed(s *sight) bool { return s.moves == w.moves }

// checkDelete checks a request to delete a CR.
func (w *world) checkDelete(cr *object.CR) {
	s, node := w.doing.sight, w.doing.plan.Node
	if !cr.OwnedBy(ownerNamed(s.nhc.Name)) || cr.Node() != node.Name {
		w.violate(node.Name, "16.1", "a foreign CR is deleted")
	}
	object := w.node(node.Name)
	if object == nil || !w.undisturbed(s) {
		return
	}
	if health.Judge(s.nhc.Spec.UnhealthyConditions, object.Status.Conditions, w.now).State != health.Healthy {
		w.violate(node.Name, "16.1", "the CR of a node that is not healthy is deleted")
	}
}

// checkMark checks a request to annotate a CR, as the live object shows it.
func (w *world) checkMark(cr *object.CR, annotations map[string]string) {
	node := w.doing.plan.Node.Name
	value, mark := annotations[v1alpha1.AnnotationTimedOut]
	at, err := time.Parse(time.RFC3339, value)
	switch {
	case !mark || err != nil || at.Format("2006-01-02T15:04:05Z") != value:
		w.violate(node, "13.8", "annotations %v", annotations)
	case !cr.OwnedBy(ownerNamed(w.doing.sight.nhc.Name)) || cr.Node() != node:
		w.violate(node, "11.4", "a foreign CR is marked")
	case cr.TimedOut():
		w.violate(node, "13.8", "marked twice")
	case cr.Succeeded == corev1.ConditionTrue:
		w.violate(node, "13.8", "marked after its success")
	case w.writes[cr.UID] > 0:
		w.violate(node, "11.2", "written twice")
	}
}

// checkLease checks a request to create (old is nil) or to update a lease. The old one
// is what is stored, and what the request is bound to.
func (w *world) checkLease(old, lease *coordinationv1.Lease) {
	s, node := w.doing.sight, w.doing.plan.Node
	violate := func(rule, what string) {
		before := "none"
		if old != nil {
			before = w.terms(old)
		}
		w.violate(node.Name, rule, "%s: %s becomes %s", what, before, w.terms(lease))
	}
	us := ownerNamed(s.nhc.Name).LeaseHolder()
	creates := begins(*w.doing.plan)
	first := creates && len(node.Own) == 0
	if leaseHolder(lease) != us || lease.Name != object.LeaseName(node.Name) || lease.Spec.RenewTime == nil || lease.Spec.AcquireTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		violate("14.1", "incomplete")
	}
	if s.objects[node.Name] == nil && creates {
		violate("14.2", "for a Node that is gone")
	}
	end := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	anew := lease.Spec.AcquireTime.Equal(lease.Spec.RenewTime) && lease.Spec.AcquireTime.Time.Equal(s.now.Truncate(time.Second))
	forNode := len(lease.OwnerReferences) == 1 && lease.OwnerReferences[0].UID == node.UID && lease.OwnerReferences[0].Controller == nil
	switch {
	case old == nil && (!anew || !forNode || transitions(lease) != 0):
		violate("14.1", "content of a new lease")
	case old == nil && !creates:
		violate("14.8", "acquired without a CR to create")
	case old == nil:
	case leaseHolder(old) != us && leaseValidReference(old, s.now):
		violate("14.3", "a valid lease is stolen")
	case leaseHolder(old) != us && (!anew || !forNode || transitions(lease) != transitions(old)+1):
		violate("14.4", "taken over")
	case leaseHolder(old) != us && !creates:
		violate("14.8", "taken over without a CR to create")
	case leaseHolder(old) != us:
	case first && (!anew || !forNode):
		violate("14.2", "it has to start anew")
	case first:
	case !creates && len(node.Own) == 0 && len(node.Unreadable) == 0:
		violate("14.5", "renewed without a CR")
	default:
		complete := old.Spec.AcquireTime != nil && old.Spec.RenewTime != nil && old.Spec.LeaseDurationSeconds != nil
		if complete && (!lease.Spec.AcquireTime.Equal(old.Spec.AcquireTime) || transitions(lease) != transitions(old)) {
			violate("14.5", "acquireTime and transitions stay")
		}
		if old.Spec.RenewTime != nil && old.Spec.LeaseDurationSeconds != nil {
			if before := old.Spec.RenewTime.Add(time.Duration(*old.Spec.LeaseDurationSeconds) * time.Second); end.Before(before) {
				violate("14.5", "the end moves to an earlier time")
			}
		}
	}
	if end.Before(s.now.Add(time.Minute)) {
		violate("14.1", "too short")
	}
}

// checkRelease checks a request to delete a lease.
func (w *world) checkRelease(lease *coordinationv1.Lease) {
	s, node := w.doing.sight, w.doing.plan.Node
	if holder := leaseHolder(lease); holder != ownerNamed(s.nhc.Name).LeaseHolder() && holder != "" {
		w.violate(node.Name, "14.9", "the lease of %q is deleted", holder)
	}
	if !w.undisturbed(s) {
		return
	}
	exists := w.node(node.Name) != nil
	for _, own := range w.ownCRs(s.nhc.Name, node.Name) {
		classicOver := len(s.policy.Steps) == 1 && !s.policy.Steps[0].Escalating() && exists && node.Verdict.State == health.Unhealthy
		looked := !w.unreadable[own.Kind] && slices.ContainsFunc(s.policy.Steps, func(step remediation.Step) bool { return step.Reference.Kind == own.Kind+"Template" })
		if looked && !classicOver && (exists || !own.Deleting()) {
			w.violate(node.Name, "14.9 P5", "the lease is released while %s %s exists", own.Kind, own.Name)
		}
	}
}
