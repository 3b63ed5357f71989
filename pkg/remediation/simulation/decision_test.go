// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// decide is what controller.newEntries does about decisions.
func (p *process) decide(s *sight, entry *v1alpha1.UnhealthyNode, plan *remediation.NodePlan, outcome *remediation.Outcome) {
	entry.Decision = s.decision(plan, outcome)
	if entry.Decision == nil {
		return
	}
	entry.Decision.Since = metav1.NewTime(s.now.Truncate(time.Second))
	shown, remembered := decisionsIn(&s.nhc.Status)[entry.Name], p.decisions[s.nhc.Name][entry.Name]
	switch {
	case entry.Decision.SameReason(&shown):
		entry.Decision.Since = shown.Since
	case entry.Decision.SameReason(&remembered):
		entry.Decision.Since = remembered.Since
	}
}

// decision returns the decision about a node, nil if there is none.
func (s *sight) decision(plan *remediation.NodePlan, outcome *remediation.Outcome) *v1alpha1.Decision {
	if decision := s.policy.Decision(plan, outcome); decision.Reason != "" {
		return &decision
	}
	return nil
}

// decisionsIn is controller.decisionsIn.
func decisionsIn(status *v1alpha1.NodeHealthCheckStatus) map[string]v1alpha1.Decision {
	decisions := map[string]v1alpha1.Decision{}
	for i := range status.UnhealthyNodes {
		if decision := status.UnhealthyNodes[i].Decision; decision != nil {
			decisions[status.UnhealthyNodes[i].Name] = *decision
		}
	}
	return decisions
}

// tellDecisions writes those into the timeline that have changed.
func (w *world) tellDecisions(s *sight, status *v1alpha1.NodeHealthCheckStatus) {
	for _, entry := range status.UnhealthyNodes {
		d := entry.Decision
		text := fmt.Sprintf("%s: %s/%s", entry.Name, d.Type, d.Reason)
		if d.Message != "" {
			text += ": " + d.Message
		}
		if d.NextCheckTime != nil {
			text += ", next check " + w.clock(d.NextCheckTime.Time)
		}
		key := s.nhc.Name + "/" + entry.Name
		if w.told[key] != text {
			w.log(entry.Name, "    %s", text)
		}
		w.told[key] = text
	}
}

// evidence is what a decision about a node is judged by.
type evidence struct {
	w       *world
	s       *sight
	node    *remediation.Node
	outcome *remediation.Outcome
	// standing are the CRs of the node that are not on their way, with one that was just
	// created; leaving reports whether there are others.
	standing []*object.CR
	leaving  bool
}

func (w *world) evidenceOf(s *sight, plan *remediation.NodePlan, outcome *remediation.Outcome) *evidence {
	e := &evidence{w: w, s: s, node: plan.Node, outcome: outcome}
	for _, cr := range plan.Node.Own {
		ended := slices.ContainsFunc(slices.Concat(outcome.Deleted, outcome.Gone), func(other *object.CR) bool { return other.UID == cr.UID })
		if going(plan.Node, cr) || ended {
			e.leaving = true
		} else {
			e.standing = append(e.standing, cr)
		}
	}
	if outcome.NewCR() != nil {
		e.standing = append(e.standing, outcome.NewCR())
	}
	return e
}

func (e *evidence) exists() bool { return e.s.objects[e.node.Name] != nil }

// is reports whether there is a Node with that verdict.
func (e *evidence) is(state health.State) bool { return e.exists() && e.node.Verdict.State == state }

// failing reports whether an attempt has failed and the next one is not due.
func (e *evidence) failing() bool { return e.outcome.Err != nil || e.s.now.Before(e.node.RetryAt) }

// begun reports whether the next CR would not be the node's first.
func (e *evidence) begun() bool { return len(e.node.Own) > 0 }

// held reports whether the node is unhealthy and its step may not end, or not begin: one
// that has time left is not held.
func (e *evidence) held() bool {
	if !e.is(health.Unhealthy) {
		return false
	}
	for i := range e.s.policy.Steps {
		cr := e.crOf(i)
		if cr == nil {
			return true
		}
		if !over(e.node, e.s.policy.Steps, i) {
			return e.due(cr, i)
		}
	}
	return false
}

// crOf returns the CR of a step, the oldest one that stands (spec 11.8).
func (e *evidence) crOf(step int) *object.CR {
	var its *object.CR
	for _, cr := range e.standing {
		if stepOf(e.s.policy.Steps, cr) == step && (its == nil || cr.CreationTimestamp.Before(&its.CreationTimestamp)) {
			its = cr
		}
	}
	return its
}

// due reports whether the time of a step's CR is up, or it has failed (spec 13.3, 14.7).
func (e *evidence) due(cr *object.CR, step int) bool {
	if timeout := e.s.policy.Steps[step].Timeout; timeout > 0 {
		return cr.Succeeded == corev1.ConditionFalse || !e.s.now.Before(cr.CreationTimestamp.Add(timeout))
	}
	lease := e.node.Lease
	return lease != nil && leaseHolder(lease) == ownerNamed(e.s.nhc.Name).LeaseHolder() && lease.Spec.AcquireTime != nil && e.s.now.Sub(lease.Spec.AcquireTime.Time) >= 30*time.Minute
}

// blocked reports whether somebody else's CR is in the way of the one for a step.
func (e *evidence) blocked(step int) bool {
	template := e.s.policy.Templates[step]
	return template != nil && slices.ContainsFunc(e.node.Foreign, func(cr *object.CR) bool {
		return cr.Kind+"Template" == template.Kind && cr.Namespace == template.Namespace &&
			(cr.Name == object.Name(e.node.Name, template) || (cr.Node() == e.node.Name && stepOf(e.s.policy.Steps, cr) == step))
	})
}

func (e *evidence) leaseTaken() bool {
	lease := e.node.Lease
	return lease != nil && leaseHolder(lease) != ownerNamed(e.s.nhc.Name).LeaseHolder() && leaseValidReference(lease, e.s.now)
}

// stranger reports whether a CR of no step is at work.
func (e *evidence) stranger() bool {
	return slices.ContainsFunc(e.standing, func(cr *object.CR) bool { return stepOf(e.s.policy.Steps, cr) < 0 })
}

// succeeded reports whether the remediator of the step that goes on reports success. A CR
// that was just created is not asked.
func (e *evidence) succeeded() bool {
	for i := range e.s.policy.Steps {
		if !over(e.node, e.s.policy.Steps, i) {
			cr := e.crOf(i)
			return cr != nil && cr.Succeeded == corev1.ConditionTrue && e.outcome.NewCR() == nil
		}
	}
	return false
}

// spent reports whether the last step is over.
func (e *evidence) spent() bool {
	steps := e.s.policy.Steps
	last := len(steps) - 1
	cr := e.crOf(last)
	if cr == nil {
		return false
	}
	_, ended := e.outcome.TimedOut[cr.UID]
	return ended || over(e.node, steps, last)
}

// proofs tell for every reason whether the world is as it says.
var proofs = map[v1alpha1.DecisionReason]func(e *evidence) bool{
	v1alpha1.DecidedStepRunning: func(e *evidence) bool {
		return e.is(health.Unhealthy) && len(e.standing) > 0 && (!e.spent() || e.stranger()) && (e.stranger() || !e.succeeded())
	},
	v1alpha1.DecidedStepSucceeded: func(e *evidence) bool {
		return e.is(health.Unhealthy) && e.succeeded()
	},
	v1alpha1.DecidedAwaitingReplacement: func(e *evidence) bool {
		return !e.exists() && slices.ContainsFunc(e.standing, func(cr *object.CR) bool {
			return cr.PermanentNodeDeletionExpected == corev1.ConditionTrue && cr.Succeeded != corev1.ConditionTrue
		})
	},
	v1alpha1.DecidedControlPlaneBusy: func(e *evidence) bool {
		return e.is(health.Unhealthy) && e.node.ControlPlane && e.s.slotTaken[e.node.Name] && !e.begun()
	},
	v1alpha1.DecidedForeignRemediation: func(e *evidence) bool {
		blocked := e.outcome.Blocker() != nil
		for i := range e.s.policy.Steps {
			blocked = blocked || e.blocked(i)
		}
		return e.is(health.Unhealthy) && blocked
	},
	v1alpha1.DecidedLeaseTaken: func(e *evidence) bool {
		return e.is(health.Unhealthy) && (e.leaseTaken() || e.outcome.Result == remediation.LeaseLost)
	},
	v1alpha1.DecidedAwaitingDeletion: func(e *evidence) bool {
		unread := !e.exists() && len(e.node.Unreadable) > 0 // Of a Node that is gone, in either way.
		return unread || e.outcome.Result == remediation.StillDeleting || (e.leaving && (!e.is(health.Healthy) || len(e.standing) == 0))
	},
	v1alpha1.DecidedSoonUnhealthy: func(e *evidence) bool { return e.is(health.SoonUnhealthy) },
	v1alpha1.DecidedRecovering:    func(e *evidence) bool { return e.outcome.Result == remediation.Recovered && e.outcome.NewCR() == nil },
	v1alpha1.DecidedUnreadable:    func(e *evidence) bool { return len(e.node.Unreadable) > 0 },
	v1alpha1.DecidedCreateFailed:  func(e *evidence) bool { return e.is(health.Unhealthy) && e.failing() && e.outcome.NewCR() == nil },
	v1alpha1.DecidedDeleteFailed: func(e *evidence) bool {
		return !e.is(health.Unhealthy) && e.failing() && len(e.standing)+len(e.node.Own) > 0
	},
	v1alpha1.DecidedUpdateFailed: func(e *evidence) bool { return e.failing() },
	v1alpha1.DecidedDisabled:     func(e *evidence) bool { return e.held() && e.node.Constraints.TemplatesUnusable },
	v1alpha1.DecidedPaused:       func(e *evidence) bool { return e.held() && len(e.s.nhc.Spec.PauseRequests) > 0 },
	v1alpha1.DecidedGateClosed:   func(e *evidence) bool { return e.held() && !e.s.climate.open },
	v1alpha1.DecidedStormActive:  func(e *evidence) bool { return e.held() && e.s.before.raging && !e.begun() },
	v1alpha1.DecidedExcluded: func(e *evidence) bool {
		return e.held() && e.s.objects[e.node.Name].Labels[v1alpha1.LabelExclude] == "true"
	},
	v1alpha1.DecidedUnselected:     func(e *evidence) bool { return e.held() && !selects(e.s.nhc, e.s.objects[e.node.Name]) },
	v1alpha1.DecidedHealthyDelay:   func(e *evidence) bool { return e.is(health.Healthy) && len(e.standing) > 0 && e.delayed() },
	v1alpha1.DecidedNoTemplateLeft: func(e *evidence) bool { return e.is(health.Unhealthy) && e.spent() },
	v1alpha1.DecidedStepFailed: func(e *evidence) bool {
		steps := e.s.policy.Steps
		return e.is(health.Unhealthy) && len(steps) > 0 && slices.ContainsFunc(e.standing, func(cr *object.CR) bool {
			return cr.Succeeded == corev1.ConditionFalse && steps[len(steps)-1].Owns(cr)
		})
	},
}

// delayed reports whether healthyDelay keeps the CRs of a healthy node (spec 16.4).
func (e *evidence) delayed() bool {
	delay := e.s.nhc.Spec.HealthyDelay
	switch {
	case delay == nil || delay.Duration == 0 || hasConfirmation(e.s.objects[e.node.Name]):
		return false
	case delay.Duration < 0:
		return true
	default:
		return e.node.HealthySince.IsZero() || e.s.now.Sub(e.node.HealthySince) < delay.Duration
	}
}

// firstRefusal returns the reason for which an unhealthy node gets no first CR, in the
// order of spec 5.4, and "" if it gets one.
func (e *evidence) firstRefusal() v1alpha1.DecisionReason {
	object := e.s.objects[e.node.Name]
	for _, refusal := range []struct {
		reason v1alpha1.DecisionReason
		stands bool
	}{
		{v1alpha1.DecidedUnreadable, len(e.node.Unreadable) > 0},
		{v1alpha1.DecidedUnselected, !selects(e.s.nhc, object)},
		{v1alpha1.DecidedDisabled, e.node.Constraints.TemplatesUnusable},
		{v1alpha1.DecidedPaused, len(e.s.nhc.Spec.PauseRequests) > 0},
		{v1alpha1.DecidedGateClosed, !e.s.climate.open},
		{v1alpha1.DecidedStormActive, e.s.before.raging},
		{v1alpha1.DecidedExcluded, object.Labels[v1alpha1.LabelExclude] == "true"},
		{v1alpha1.DecidedControlPlaneBusy, e.node.ControlPlane && e.s.slotTaken[e.node.Name]},
		{v1alpha1.DecidedForeignRemediation, e.blocked(0)},
		{v1alpha1.DecidedLeaseTaken, e.leaseTaken()},
	} {
		if refusal.stands {
			return refusal.reason
		}
	}
	return ""
}
