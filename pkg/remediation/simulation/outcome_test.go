// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// checkOutcomes checks what became of the plans.
func (w *world) checkOutcomes(s *sight, plans []remediation.NodePlan, outcomes []remediation.Outcome) {
	for i := range plans {
		node := plans[i].Node
		if created := outcomes[i].NewCR(); created != nil {
			if !created.OwnedBy(ownerNamed(s.nhc.Name)) || created.Node() != node.Name {
				w.violate(node.Name, "P9", "%s %s is taken for ours", created.Kind, created.Name)
			}
			if w.created[created.UID] <= s.version {
				w.seen["created earlier"]++
			}
		}
	}
}

// noteUnwell remembers which nodes were not healthy when status was written, or was
// found to say so already.
func (w *world) noteUnwell(s *sight) {
	for i := range s.nodes {
		if node := &s.nodes[i]; node.Verdict.State != health.Healthy || s.objects[node.Name] == nil {
			w.unwell[s.nhc.Name+"/"+node.Name] = s.now
		}
	}
}

// checkFixedPoint checks that a plan that was carried out leaves nothing to do, as the
// world is now, and that time alone brings nothing up before it was announced.
func (w *world) checkFixedPoint(s *sight, plans []remediation.NodePlan, outcomes []remediation.Outcome, status *v1alpha1.NodeHealthCheckStatus) {
	if !w.undisturbed(s) || w.now != s.now {
		return
	}
	nhc := w.nhc(s.nhc.Name).DeepCopy()
	nhc.Status = *status
	again, following := w.lookAgain(nhc, s.now)
	w.checkStay(s, again, plans, following, outcomes, status)
	if again.storm == s.storm { // Or status is about to change by what was deleted.
		w.checkForesight(again, following)
	}
	for i := range plans {
		before := &plans[i]
		if lostRace(&outcomes[i]) || outcomes[i].Err != nil || outcomes[i].Blocker() != nil || outcomes[i].Result == remediation.Recovered || s.now.Before(before.Node.RetryAt) {
			continue
		}
		if before.Node.Constraints.GateClosed || before.Refusal() == v1alpha1.DecidedStormActive || before.Refusal() == v1alpha1.DecidedControlPlaneBusy {
			continue // What was done about other nodes may have ended that.
		}
		at := slices.IndexFunc(again.nodes, func(n remediation.Node) bool { return n.Name == before.Node.Name })
		if at < 0 {
			continue
		}
		next := following[at]
		for _, action := range next.Actions {
			switch action := action.(type) {
			case remediation.ReleaseLease, remediation.RemoveConfirmation, remediation.WriteLease:
				if len(outcomes[i].Deleted)+len(outcomes[i].Gone) > 0 && !next.Begins() {
					continue // What was deleted is gone already, and this is what follows.
				}
				w.violate(before.Node.Name, "P3", "the plan that follows is not empty: %T", action)
			default:
				w.violate(before.Node.Name, "P3", "the plan that follows is not empty: %T", action)
			}
		}
		w.checkRecheck(again, &next)
	}
}

// lostRace reports whether another client was faster, so that the plan is to be made again.
func lostRace(outcome *remediation.Outcome) bool {
	return outcome.Result == remediation.LeaseLost || outcome.ReleaseFailed || outcome.Result == remediation.StillDeleting
}

// checkRecheck looks at a plan that is empty at some instant before its next look:
// nothing but the renewal of a lease may come up there.
func (w *world) checkRecheck(s *sight, plan *remediation.NodePlan) {
	if len(plan.Actions) > 0 || plan.Refusal() == v1alpha1.DecidedLeaseTaken || s.now.Before(plan.Node.RetryAt) {
		return // The end of a foreign lease is noticed within a minute.
	}
	until := plan.Recheck
	if until.IsZero() {
		until = s.now.Add(100 * time.Hour)
	}
	span := until.Sub(s.now)
	if span <= 0 {
		w.violate(plan.Node.Name, "P2", "the next look is at %s, which is now or before", w.clock(until))
	}
	for _, after := range []time.Duration{span - 1, time.Duration(w.random.Int64N(int64(span)))} {
		node := plan.Node
		later := s.plan(node, s.now.Add(after))
		for _, action := range later.Actions {
			if _, renewal := action.(remediation.WriteLease); !renewal || len(node.Own)+len(node.Unreadable) == 0 || later.Begins() {
				w.violate(node.Name, "P2", "%T comes up at %s, the next look is at %s", action, w.clock(s.now.Add(after)), w.clock(plan.Recheck))
			}
		}
		if later.Exhausted != plan.Exhausted || later.Delayed != plan.Delayed {
			w.violate(node.Name, "P2", "the state changes at %s, the next look is at %s", w.clock(s.now.Add(after)), w.clock(plan.Recheck))
		}
	}
}
