// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// silent are the reasons that hold for all nodes: the condition has their message (spec
// 23b.5).
var silent = sets.New(v1alpha1.DecidedDisabled, v1alpha1.DecidedInvalidSpec, v1alpha1.DecidedTerminating, v1alpha1.DecidedClockUntrusted,
	v1alpha1.DecidedClusterUpgrading, v1alpha1.DecidedPaused, v1alpha1.DecidedGateClosed, v1alpha1.DecidedStormActive)

// unfollowed are the reasons whose causes are not followed: failed requests among them.
var unfollowed = sets.New(v1alpha1.DecidedInvalidSpec, v1alpha1.DecidedTerminating, v1alpha1.DecidedClockUntrusted, v1alpha1.DecidedClusterUpgrading,
	v1alpha1.DecidedMachineUnreadable, v1alpha1.DecidedUnreadable, v1alpha1.DecidedCreateFailed, v1alpha1.DecidedDeleteFailed, v1alpha1.DecidedUpdateFailed)

const undecided = "the node is listed without a decision"

// checkDecisions judges that every listed node has a decision, and that it is true (spec
// 23b.5).
func (s *settledCheck) checkDecisions() {
	for i := range s.nhc.Status.UnhealthyNodes {
		entry := &s.nhc.Status.UnhealthyNodes[i]
		s.check("23b.5", entry.Name, entry.Decision == nil, undecided)
		if entry.Decision != nil {
			s.checkDecision(entry.Name, entry.Decision)
		}
	}
}

func (s *settledCheck) checkDecision(name string, decision *v1alpha1.Decision) {
	check := func(broken bool, format string) {
		s.check("23b.5", name, broken, "decision %s/%s, %q: "+format, decision.Type, decision.Reason, decision.Message)
	}
	kind := decision.Reason.Type()
	works := slices.ContainsFunc(s.own[name], func(cr *CR) bool { return !cr.Deleting })
	check(kind == "" || (decision.Type != kind && decision.Type != v1alpha1.DecisionRemediating), "there is no such decision")
	check((decision.Message == "") != silent.Has(decision.Reason), "the message is where it does not belong")
	check(decision.Since.IsZero() || decision.Since.After(s.now) || decision.Since.Nanosecond() != 0, "it is since "+decision.Since.UTC().Format(time.TimeOnly))
	check(decision.NextCheckTime != nil && s.now.After(decision.NextCheckTime.Time), "it was to change and has not")
	if unfollowed.Has(decision.Reason) {
		return
	}
	check(decision.Type == v1alpha1.DecisionRemediating && !works, "no CR is at work")
	check(!s.isTrue(name, decision.Reason), "this is not so")
	if s.unhealthy.Has(name) && len(s.own[name]) == 0 {
		s.checkFirstRefusal(name, decision.Reason)
	}
}

// checkFirstRefusal judges that the first refusal is the one reported (spec 5.4). From the
// control plane on, that is the first one when it was asked: a node that waits for one thing
// is not told that another is in the way, too.
func (s *settledCheck) checkFirstRefusal(name string, reason v1alpha1.DecisionReason) {
	asked := []v1alpha1.DecisionReason{
		"", v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum, v1alpha1.DecidedForeignRemediation, v1alpha1.DecidedLeaseTaken,
	}
	refusal := s.refusal(name, true)
	s.check("5.4", name, reason != refusal && (!slices.Contains(asked, refusal) || !slices.Contains(asked[1:], reason)), "decided %s, it has to be %q", reason, refusal)
}

// isTrue reports whether what a reason says about a node holds.
func (s *settledCheck) isTrue(name string, reason v1alpha1.DecisionReason) bool {
	node, own := s.nodes[name].at(s.rv), s.own[name]
	some := func(holds func(*CR) bool) bool { return slices.ContainsFunc(own, holds) }
	switch reason {
	case v1alpha1.DecidedSoonUnhealthy:
		return s.soon.Has(name) || s.unselected(name)
	case v1alpha1.DecidedAwaitingReplacement:
		return node == nil && some(func(cr *CR) bool { return cr.Permanent == "True" && cr.Succeeded != "True" })
	case v1alpha1.DecidedAwaitingDeletion:
		return some(func(cr *CR) bool { return cr.Deleting })
	case v1alpha1.DecidedHealthyDelay:
		delay := s.nhc.Spec.HealthyDelay
		return (s.healthy.Has(name) || s.unselected(name)) && len(own) > 0 && delay != nil && delay.Duration != 0
	case v1alpha1.DecidedUnselected:
		return node != nil && s.unselected(name)
	}
	return node != nil && (s.unhealthy.Has(name) || s.unselected(name)) && (s.isRunning(name, reason) || s.isRefused(name, reason))
}

// isRunning reports whether a reason says the truth about the steps of an unhealthy node.
func (s *settledCheck) isRunning(name string, reason v1alpha1.DecisionReason) bool {
	steps, recorded := stepsOf(s.nhc), timeouts(s.nhc)
	of := func(cr *CR, step int) bool { return !cr.Deleting && stepOf(steps, cr) == step }
	some := func(holds func(*CR) bool) bool { return slices.ContainsFunc(s.own[name], holds) }
	switch reason {
	case v1alpha1.DecidedStepRunning:
		return some(func(cr *CR) bool { return !cr.Deleting })
	case v1alpha1.DecidedStepSucceeded:
		return some(func(cr *CR) bool { return cr.Succeeded == "True" })
	case v1alpha1.DecidedStepFailed:
		return some(func(cr *CR) bool { return of(cr, len(steps)-1) && cr.Succeeded == "False" })
	case v1alpha1.DecidedNoTemplateLeft:
		return some(func(cr *CR) bool { return of(cr, len(steps)-1) && s.isOver(steps[len(steps)-1], cr, recorded[cr.UID]) })
	}
	return false
}

// isRefused reports whether what a reason names is in the way of an unhealthy node.
func (s *settledCheck) isRefused(name string, reason v1alpha1.DecisionReason) bool {
	node, conditions := s.nodes[name].at(s.rv), s.nhc.Status.Conditions
	switch reason {
	case v1alpha1.DecidedDisabled:
		return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionDisabled)
	case v1alpha1.DecidedPaused:
		return len(s.nhc.Spec.PauseRequests) > 0
	case v1alpha1.DecidedGateClosed:
		return !s.gate
	case v1alpha1.DecidedStormActive:
		return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStormActive)
	case v1alpha1.DecidedExcluded:
		return node.Labels[v1alpha1.LabelExclude] == "true"
	case v1alpha1.DecidedControlPlaneBusy:
		return node.ControlPlane() && s.slotTaken(name)
	case v1alpha1.DecidedEtcdQuorum:
		return node.ControlPlane()
	case v1alpha1.DecidedForeignRemediation:
		return s.othersCR(name, s.nhc.Name)
	case v1alpha1.DecidedLeaseTaken:
		return s.leaseTaken(name, s.nhc.Name)
	}
	return false
}
