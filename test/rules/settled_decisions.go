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

// unfollowed are the reasons whose causes are not followed: failed requests among them.
var unfollowed = sets.New(v1alpha1.DecidedInvalidSpec, v1alpha1.DecidedTerminating, v1alpha1.DecidedClockUntrusted,
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
	check(decision.Message == "", "there is no message")
	check(decision.Since.IsZero() || decision.Since.After(s.now) || decision.Since.Nanosecond() != 0, "it is since "+decision.Since.UTC().Format(time.TimeOnly))
	check(decision.NextCheckTime != nil && s.now.After(decision.NextCheckTime.Time), "it was to change and has not")
	if unfollowed.Has(decision.Reason) {
		return
	}
	check(decision.Type == v1alpha1.DecisionRemediating && !works, "no CR is at work")
	check(!s.isTrue(name, decision.Reason), "this is not so")
	s.check("B1.2", name, decision.Reason == v1alpha1.DecidedBudgetExhausted && works && !s.budgetMayStop(name), "a budget holds up a remediation that has begun")
	if s.unhealthy.Has(name) && len(s.own[name]) == 0 {
		s.checkFirstRefusal(name, decision.Reason)
	}
}

// checkFirstRefusal judges that the first refusal is the one reported (spec 5.4). From the
// control plane on, that is the first one when it was asked: a node that waits for one thing
// is not told that another is in the way, too.
func (s *settledCheck) checkFirstRefusal(name string, reason v1alpha1.DecisionReason) {
	asked := []v1alpha1.DecisionReason{
		"", v1alpha1.DecidedDryRun, v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum, v1alpha1.DecidedBudgetExhausted,
		v1alpha1.DecidedForeignRemediation, v1alpha1.DecidedLeaseTaken,
	}
	refusal := s.refusal(name, true)
	if node := s.nodes[name].at(s.rv); refusal == v1alpha1.DecidedClusterUpgrading {
		if first, _ := deadline(s.nhc.Spec.UnhealthyConditions, node); !s.now.Before(first.earliest.Add(longestUpdate)) {
			return // Two observers may judge differently since when a condition has lasted (spec 7.2).
		}
	}
	s.check("5.4", name, reason != refusal && (!slices.Contains(asked, refusal) || !slices.Contains(asked[1:], reason)), "decided %s, it has to be %q", reason, refusal)
}

// isTrue reports whether what a reason says about a node holds. What is not in the table is
// true for a moment only.
func (s *settledCheck) isTrue(name string, reason v1alpha1.DecisionReason) bool {
	d := decided{settledCheck: s, name: name, node: s.nodes[name].at(s.rv)}
	switch {
	case ofAny[reason] != nil:
		return ofAny[reason](d)
	case ofUnhealthy[reason] != nil:
		return d.node != nil && (s.unhealthy.Has(name) || s.unselected(name)) && ofUnhealthy[reason](d)
	default:
		return false
	}
}

// decided is a node about which something is decided.
type decided struct {
	*settledCheck
	name string
	// node is nil if the Node is gone.
	node *Node
}

// some reports whether something holds for an own CR.
func (d decided) some(holds func(*CR) bool) bool { return slices.ContainsFunc(d.own[d.name], holds) }

// lastStep reports whether something holds for a CR of the last step.
func (d decided) lastStep(holds func(step, *CR) bool) bool {
	steps := stepsOf(d.nhc)
	last := len(steps) - 1
	return d.some(func(cr *CR) bool {
		return !cr.Deleting && last >= 0 && stepOf(steps, cr) == last && holds(steps[last], cr)
	})
}

// is reports whether a condition of the NodeHealthCheck is True.
func (d decided) is(conditionType string) bool {
	return meta.IsStatusConditionTrue(d.nhc.Status.Conditions, conditionType)
}

// ofAny tells what has to hold for a reason, for a node of any health.
var ofAny = map[v1alpha1.DecisionReason]func(decided) bool{
	v1alpha1.DecidedSoonUnhealthy: func(d decided) bool { return d.soon.Has(d.name) || d.unselected(d.name) },
	v1alpha1.DecidedAwaitingReplacement: func(d decided) bool {
		return d.node == nil && d.some(func(cr *CR) bool { return cr.Permanent == "True" && cr.Succeeded != "True" })
	},
	v1alpha1.DecidedAwaitingDeletion: func(d decided) bool { return d.some(func(cr *CR) bool { return cr.Deleting }) },
	v1alpha1.DecidedHealthyDelay: func(d decided) bool {
		delay := d.nhc.Spec.HealthyDelay
		return (d.healthy.Has(d.name) || d.unselected(d.name)) && len(d.own[d.name]) > 0 && delay != nil && delay.Duration != 0
	},
	v1alpha1.DecidedUnselected: func(d decided) bool { return d.node != nil && d.unselected(d.name) },
}

// ofUnhealthy tells the same for reasons that only an unhealthy node can have.
var ofUnhealthy = map[v1alpha1.DecisionReason]func(decided) bool{
	v1alpha1.DecidedStepRunning:   func(d decided) bool { return d.some(func(cr *CR) bool { return !cr.Deleting }) },
	v1alpha1.DecidedStepSucceeded: func(d decided) bool { return d.some(func(cr *CR) bool { return cr.Succeeded == "True" }) },
	v1alpha1.DecidedStepFailed: func(d decided) bool {
		return d.lastStep(func(_ step, cr *CR) bool { return cr.Succeeded == "False" })
	},
	v1alpha1.DecidedNoTemplateLeft: func(d decided) bool {
		return d.lastStep(func(last step, cr *CR) bool { return d.isOver(last, cr, timeouts(d.nhc)[cr.UID]) })
	},
	v1alpha1.DecidedDryRun:             func(d decided) bool { return d.nhc.Spec.Mode == v1alpha1.ModeDryRun },
	v1alpha1.DecidedDisabled:           func(d decided) bool { return d.is(v1alpha1.ConditionDisabled) },
	v1alpha1.DecidedClusterUpgrading:   func(d decided) bool { return d.mayUpdate(d.node) },
	v1alpha1.DecidedPaused:             func(d decided) bool { return len(d.nhc.Spec.PauseRequests) > 0 },
	v1alpha1.DecidedGateClosed:         func(d decided) bool { return !d.gate },
	v1alpha1.DecidedStormActive:        func(d decided) bool { return d.is(v1alpha1.ConditionStormActive) },
	v1alpha1.DecidedExcluded:           func(d decided) bool { return d.node.Labels[v1alpha1.LabelExclude] == "true" },
	v1alpha1.DecidedMachineHealthCheck: func(d decided) bool { return d.claimed(d.name, d.rv, d.now) },
	v1alpha1.DecidedControlPlaneBusy:   func(d decided) bool { return d.node.ControlPlane() && d.slotTaken(d.name) },
	v1alpha1.DecidedEtcdQuorum:         func(d decided) bool { return d.node.ControlPlane() },
	v1alpha1.DecidedBudgetExhausted:    func(d decided) bool { return d.budgetMayRefuse(d.name) },
	v1alpha1.DecidedForeignRemediation: func(d decided) bool { return d.othersCR(d.name, d.nhc.Name) },
	v1alpha1.DecidedLeaseTaken:         func(d decided) bool { return d.leaseTaken(d.name, d.nhc.Name) },
}
