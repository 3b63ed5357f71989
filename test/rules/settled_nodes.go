// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// refusal says why an unhealthy node need not get a CR (spec 5.4), or "". What refuses
// only the first one is not asked for a next one.
func (s *settledCheck) refusal(name string, first bool) v1alpha1.DecisionReason {
	node := s.nodes[name].at(s.rv)
	status := &s.nhc.Status
	switch {
	case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDisabled):
		return v1alpha1.DecidedDisabled
	case s.mayUpdate(node):
		return v1alpha1.DecidedClusterUpgrading
	case len(s.nhc.Spec.PauseRequests) > 0:
		return v1alpha1.DecidedPaused
	case !s.gate:
		return v1alpha1.DecidedGateClosed
	case first && Stormy(&s.nhc.Spec) && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStormActive):
		return v1alpha1.DecidedStormActive
	case node.Labels[v1alpha1.LabelExclude] == "true":
		return v1alpha1.DecidedExcluded
	case first && s.claimed(name, s.rv, s.now):
		return v1alpha1.DecidedMachineHealthCheck
	case s.vanished(name) != "":
		return s.vanished(name)
	case first && node.ControlPlane() && s.slotTaken(name):
		return v1alpha1.DecidedControlPlaneBusy
	case first && node.ControlPlane() && !s.quorumWithout(name):
		return v1alpha1.DecidedEtcdQuorum
	case first && s.budgetMayRefuse(name), !first && s.budgetMayStop(name):
		return v1alpha1.DecidedBudgetExhausted
	default:
		return s.refusalAfterBudgets(name)
	}
}

// mayUpdate reports whether the machine configuration of an unhealthy node is being changed, and may hold it (spec 10.2).
func (s *settledCheck) mayUpdate(node *Node) bool {
	first, _ := deadline(s.nhc.Spec.UnhealthyConditions, node)
	return node.Updates() && s.now.Before(first.latest.Add(longestUpdate))
}

// refusalAfterBudgets is the same for the checks after the budgets.
func (s *settledCheck) refusalAfterBudgets(name string) v1alpha1.DecisionReason {
	switch {
	case s.othersCR(name, s.nhc.Name):
		return v1alpha1.DecidedForeignRemediation
	case s.leaseTaken(name, s.nhc.Name):
		return v1alpha1.DecidedLeaseTaken
	case slices.ContainsFunc(s.own[name], func(cr *CR) bool { return cr.Deleting }):
		return v1alpha1.DecidedAwaitingDeletion
	case s.nhc.Spec.Mode == v1alpha1.ModeDryRun:
		return v1alpha1.DecidedDryRun
	default:
		return ""
	}
}

// checkUnhealthy judges that an unhealthy node gets its first CR, or its next step (spec
// 13.3, P12).
func (s *settledCheck) checkUnhealthy(name string) {
	if s.refusal(name, len(s.own[name]) == 0) != "" {
		return
	}
	if len(s.own[name]) == 0 {
		s.check("P12", name, true, "the node is unhealthy and nothing is in the way, but there is no CR")
		return
	}
	s.checks["P12"]++
	steps := stepsOf(s.nhc)
	if slices.ContainsFunc(s.own[name], func(cr *CR) bool { return stepOf(steps, cr) < 0 }) {
		return // What belongs to no step may be at work, too.
	}
	s.checkOverdue(name, steps)
	recorded := timeouts(s.nhc)
	crs := make([]*CR, len(steps))
	for _, cr := range s.own[name] {
		if i := stepOf(steps, cr); i >= 0 && (crs[i] == nil || cr.olderThan(crs[i])) {
			crs[i] = cr
		}
	}
	for i, cr := range crs {
		later := slices.ContainsFunc(crs[i+1:], func(cr *CR) bool { return cr != nil })
		switch {
		case cr == nil && !later && s.passed(s.nhc.Name, name, steps[i], s.rv, s.now):
		case cr == nil && !later:
			// All earlier steps are over, so this one is due. A step is not due if it was added to
			// the spec before a step that has a CR.
			s.check("13.3", name, true, "step %d is due and has no CR", i)
			return
		case cr == nil || later:
		case !s.isOver(steps[i], cr, recorded[cr.UID]):
			s.checks["13.3"]++
			return // It is at work.
		case i+1 < len(steps):
			s.check("13.3", name, !cr.Marked && cr.Succeeded != "True" && !recorded[cr.UID], "%s is over and not told to stop", cr)
		}
	}
}

// checkOverdue judges that an overdue lease ends a classic remediation, and is deleted (spec
// 14.7).
func (s *settledCheck) checkOverdue(name string, steps []step) {
	if len(steps) != 1 || steps[0].timeout > 0 {
		return
	}
	for key := range s.leasesOf[name] {
		if lease := s.leases[key].at(s.rv); lease != nil && holderOf(lease) == holderPrefix+s.nhc.Name && lease.Spec.AcquireTime != nil {
			due := lease.Spec.AcquireTime.Add(v1alpha1.ClassicLeaseOverdue)
			s.check("14.7", name, !s.now.Before(due), "the lease is overdue since %s and is kept", due.UTC().Format(time.TimeOnly))
		}
	}
}

// isOver reports whether a step is over by itself or is said to be (spec 13.2, 13.3).
func (s *settledCheck) isOver(of step, cr *CR, recorded bool) bool {
	failed := of.timeout > 0 && cr.Succeeded == "False"
	return cr.Marked || recorded || failed || !s.now.Before(cr.Created.Add(of.end()))
}

// checkOwn judges the CRs of a node that is healthy or gone (spec 16, 17).
func (s *settledCheck) checkOwn(name string, crs []*CR) {
	node := s.nodes[name].at(s.rv)
	standing := slices.ContainsFunc(crs, func(cr *CR) bool { return !cr.Deleting })
	switch {
	case node == nil:
		awaited := func(cr *CR) bool { return cr.Permanent == "True" && cr.Succeeded != "True" }
		stays := slices.ContainsFunc(crs, func(cr *CR) bool { return !cr.Deleting && !awaited(cr) })
		s.check("17.2", name, stays, "the Node is gone and its CR stays")
	case standing && !NotHealthy(s.nhc.Spec.UnhealthyConditions, node):
		s.checkDelay(name, node)
	}
}

// checkDelay judges a healthy node whose CRs are not being deleted (spec 16.1, 16.4 to
// 16.6).
func (s *settledCheck) checkDelay(name string, node *Node) {
	_, confirmed := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	delay := s.nhc.Spec.HealthyDelay
	if delay == nil || delay.Duration == 0 || confirmed {
		s.check("16.1", name, true, "the node is healthy and its CR stays")
		return
	}
	s.checks["16.1"]++
	entry := s.entry(name)
	if entry == nil || entry.ConditionsHealthyTimestamp == nil {
		return // Other rules say so.
	}
	due := entry.ConditionsHealthyTimestamp.Add(delay.Duration)
	s.check("16.4", name, delay.Duration > 0 && !s.now.Before(due), "healthyDelay is over since %s and the CR stays", due.UTC().Format(time.TimeOnly))
}

// checkLease judges that the lease of a node is renewed in time (spec 14.5).
func (s *settledCheck) checkLease(name string) {
	steps, recorded := stepsOf(s.nhc), timeouts(s.nhc)
	last, current := -1, (*CR)(nil)
	for _, cr := range s.own[name] { // Earlier steps are over (spec 13.2), and the oldest CR counts (spec 11.8).
		if i := stepOf(steps, cr); i > last || (i == last && i >= 0 && cr.olderThan(current)) {
			last, current = i, cr
		}
	}
	if current == nil || s.isOver(steps[last], current, recorded[current.UID]) {
		return // After the last step it is not renewed any more (spec 13.6, 14.7).
	}
	for key := range s.leasesOf[name] {
		lease := s.leases[key].at(s.rv)
		end, known := leaseEnd(lease)
		if known && holderOf(lease) == holderPrefix+s.nhc.Name {
			s.check("14.5", name, s.now.After(end.Add(-v1alpha1.LeaseBuffer+time.Second)), "the lease lasts until %s and is not renewed", end.UTC().Format(time.TimeOnly))
		}
	}
}
