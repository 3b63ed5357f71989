// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// outlook is what would be decided and done about each node at some instant if nothing
// but time changed.
type outlook map[string]prospect

type prospect struct {
	decision *v1alpha1.Decision
	plan     remediation.NodePlan
}

// foresee looks at the world as it would be then.
func (w *world) foresee(nhc *v1alpha1.NodeHealthCheck, at time.Time) outlook {
	s, plans := w.lookAgain(nhc, at)
	found := outlook{}
	for i := range plans {
		found[plans[i].Node.Name] = prospect{decision: s.decision(&plans[i], &remediation.Outcome{}), plan: plans[i]}
	}
	return found
}

// lookAgain is a sync of the present world, at some instant, that leaves no trace.
func (w *world) lookAgain(nhc *v1alpha1.NodeHealthCheck, at time.Time) (*sight, []remediation.NodePlan) {
	p := w.process
	requested, place := p.requested[nhc.Name], p.place
	defer func() { p.requested[nhc.Name], p.place = requested, place }()
	s := p.observe(w.truth(), nhc, at)
	p.takePlace(w.truth(), s, false)
	plans := make([]remediation.NodePlan, 0, len(s.nodes))
	for _, node := range s.nodes {
		plans = append(plans, s.plan(&node, at))
	}
	return s, plans
}

// checkStay checks that a second sync in a world that nobody has changed decides the
// same, so that status is not written (P3). What the first one did about other nodes may
// have opened the gate, ended a storm or begun one, or taken the control plane's place.
func (w *world) checkStay(s, again *sight, plans, next []remediation.NodePlan, outcomes []remediation.Outcome, status *v1alpha1.NodeHealthCheckStatus) {
	acted, failed := s.before.raging != s.after.raging, false
	for i := range outcomes {
		place := plans[i].Node.ControlPlane && outcomes[i].NewCR() != nil
		acted = acted || place || len(outcomes[i].Deleted)+len(outcomes[i].Gone) > 0
		failed = failed || lostRace(&outcomes[i]) || outcomes[i].Err != nil || outcomes[i].Blocker() != nil || outcomes[i].Result == remediation.Recovered
		failed = failed || incomplete(plans[i].Node.Lease) || s.now.Before(plans[i].Node.RetryAt)
	}
	if acted || failed {
		return
	}
	again.before = w.tempests[stormKey(again.nhc)].next(&again.nhc.Spec, again.climate, again.now)
	w.checkStorm(again, again.before, again.climate)
	second := w.process.status(again, next, make([]remediation.Outcome, len(next)))
	for i := range second.UnhealthyNodes {
		before, known := decisionsIn(status)[second.UnhealthyNodes[i].Name]
		if after := second.UnhealthyNodes[i].Decision; !known || after == nil || !sameDecision(&before, after) || before.Message != after.Message {
			w.violate(second.UnhealthyNodes[i].Name, "P3", "decided %+v, and then %+v", before, after)
		}
	}
	if !equality.Semantic.DeepEqual(status, second) {
		w.violate("", "P3", "a second sync of %s writes status: %s", s.nhc.Name, w.summary(second))
	}
	w.seen["a second sync"]++
}

// incomplete reports whether a lease that is renewed starts anew, whereby a classic step
// gains time (spec 14.5).
func incomplete(lease *coordinationv1.Lease) bool {
	return lease != nil && (lease.Spec.AcquireTime == nil || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil)
}

// far is when nothing that is under way now has time left.
const far = 100 * time.Hour

// checkForesight checks the next check times of a sync that has nothing to do (spec of
// nextCheckTime): time alone changes the decision within the second before, and without
// one it does not.
func (w *world) checkForesight(s *sight, plans []remediation.NodePlan) {
	timed, untimed := outlook{}, outlook{}
	for i := range plans {
		decision := s.decision(&plans[i], &remediation.Outcome{})
		switch {
		case decision == nil || plans[i].Begins() || waits(&plans[i]) || s.now.Before(plans[i].Node.RetryAt):
		case decision.NextCheckTime != nil:
			timed[plans[i].Node.Name] = prospect{decision, plans[i]}
		default:
			untimed[plans[i].Node.Name] = prospect{decision, plans[i]}
		}
	}
	if names := sorted(timed); len(names) > 0 {
		name := oneOf(w, names...)
		w.checkDue(s, name, timed[name])
	}
	if len(untimed) > 0 && w.chance(25) {
		w.checkUndated(s, untimed)
	}
}

// checkDue checks that a decision changes within the second before its next check time.
func (w *world) checkDue(s *sight, node string, now prospect) {
	due := now.decision.NextCheckTime.Time
	if w.foresee(s.nhc, due)[node].like(now) {
		w.violate(node, "P2", "decision %s is to change at %s, and does not", now.decision.Reason, w.clock(due))
	}
	if early := due.Add(-time.Second); early.After(s.now) {
		if then := w.foresee(s.nhc, early)[node]; !then.like(now) {
			w.violate(node, "P2", "decision %+v, due at %s, is %+v a second before", now.decision, w.clock(due), then.decision)
		}
	}
	w.seen["next check: "+string(now.decision.Reason)]++
}

// checkUndated checks that decisions without a next check time stay, however long it takes.
func (w *world) checkUndated(s *sight, undated outlook) {
	then := w.foresee(s.nhc, s.now.Add(far))
	for _, name := range sorted(undated) {
		now := undated[name]
		if reason := now.decision.Reason; reason == v1alpha1.DecidedLeaseTaken || reason == v1alpha1.DecidedControlPlaneBusy {
			continue // A lease may be renewed, and who took the place may give up.
		}
		if !then[name].like(now) {
			w.violate(name, "P2", "decision %+v changes to %+v, it does not say when", now.decision, then[name].decision)
		}
	}
}

// like reports whether the decision is the same, and nothing comes up but a lease that is
// renewed in the meantime.
func (p prospect) like(other prospect) bool {
	return sameDecision(p.decision, other.decision) && !waits(&p.plan) && !begins(p.plan)
}

// sameDecision compares all but the message and the time.
func sameDecision(a, b *v1alpha1.Decision) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type && a.Reason == b.Reason && a.NextCheckTime.Equal(b.NextCheckTime)
}
