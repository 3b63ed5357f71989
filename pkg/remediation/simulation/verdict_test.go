// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// checkDecisions checks that every listed node has one decision, and that it is true.
func (w *world) checkDecisions(s *sight, plans []remediation.NodePlan, outcomes []remediation.Outcome, status *v1alpha1.NodeHealthCheckStatus) {
	entries := status.UnhealthyNodes
	for i := range entries {
		name, decision := entries[i].Name, entries[i].Decision
		if i > 0 && entries[i-1].Name == name {
			w.violate(name, "18.4", "listed twice")
		}
		at := slices.IndexFunc(plans, func(plan remediation.NodePlan) bool { return plan.Node.Name == name })
		if decision == nil {
			w.violate(name, "P4", "listed without a decision, plan: %q", plans[at].Reason)
		}
		w.checkForm(s, &outcomes[at], name, decision)
		w.checkSince(s, name, decision)
		w.checkTruth(w.evidenceOf(s, &plans[at], &outcomes[at]), &plans[at], decision)
		w.seen["decided: "+string(decision.Reason)]++
	}
}

// checkForm checks what can be told from a decision alone.
func (w *world) checkForm(s *sight, outcome *remediation.Outcome, node string, decision *v1alpha1.Decision) {
	kind, known := v1alpha1.DecisionReasons()[decision.Reason]
	// A CR that was created earlier may be of any age, the caches are about to tell.
	adopted := outcome.NewCR() != nil && w.created[outcome.NewCR().UID] <= s.version
	switch {
	case !known || (kind != decision.Type && decision.Type != v1alpha1.DecisionRemediating):
		w.violate(node, "P4", "decision %s has reason %q", decision.Type, decision.Reason)
	case (decision.Message == "") != heldForAll[decision.Reason] || decision.Message == string(decision.Reason):
		w.violate(node, "P4", "decision %s does not explain itself: %q", decision.Reason, decision.Message)
	case decision.Since.IsZero() || decision.Since.After(s.now) || decision.Since.Nanosecond() != 0:
		w.violate(node, "P4", "decision %s since %s", decision.Reason, w.clock(decision.Since.Time))
	case decision.NextCheckTime != nil && !adopted && (!decision.NextCheckTime.After(s.now) || decision.NextCheckTime.Nanosecond() != 0):
		w.violate(node, "P4", "decision %s is to change at %s, which is not to come", decision.Reason, w.clock(decision.NextCheckTime.Time))
	}
}

// checkSince checks that a decision that status shows already keeps its time, also after
// a restart (P8), and where the answer to the write was lost.
func (w *world) checkSince(s *sight, node string, decision *v1alpha1.Decision) {
	shown, known := decisionsIn(&s.nhc.Status)[node]
	if !known || shown.Type != decision.Type || shown.Reason != decision.Reason {
		return
	}
	if !shown.Since.Equal(&decision.Since) {
		w.violate(node, "P3", "decision %s since %s, and now since %s", decision.Reason, w.clock(shown.Since.Time), w.clock(decision.Since.Time))
	}
}

// checkTruth compares a decision with what it is about.
func (w *world) checkTruth(e *evidence, plan *remediation.NodePlan, decision *v1alpha1.Decision) {
	name := e.node.Name
	if proof := proofs[decision.Reason]; proof == nil || !proof(e) {
		w.violate(name, "P4", "decided %s/%s, which is not so: %s", decision.Type, decision.Reason, decision.Message)
	}
	if plan.Refusal() != "" && !e.s.now.Before(plan.Node.RetryAt) && string(plan.Refusal()) != string(decision.Reason) {
		w.violate(name, "P4", "refused for %s, decided %s", plan.Refusal(), decision.Reason)
	}
	if e.is(health.Healthy) && len(e.standing) > 0 && e.delayed() && !e.failing() && decision.Reason != v1alpha1.DecidedHealthyDelay {
		w.violate(name, "P4", "healthyDelay keeps the node, decided %s", decision.Reason)
	}
	if e.is(health.Unhealthy) && !e.begun() {
		w.checkFirst(e, decision)
	}
	if decision.Type == v1alpha1.DecisionRemediating && w.undisturbed(e.s) && !slices.ContainsFunc(w.ownCRs(e.s.nhc.Name, name), func(cr *object.CR) bool { return !cr.Deleting() }) {
		w.violate(name, "P4", "decided %s, nothing is at work", decision.Reason)
	}
}

// checkFirst checks the decision about an unhealthy node without a CR: the first refusal
// is the one reported (spec 5.4).
func (w *world) checkFirst(e *evidence, decision *v1alpha1.Decision) {
	got, want := decision.Reason, e.firstRefusal()
	begun := got == v1alpha1.DecidedStepRunning && e.outcome.NewCR() != nil
	tried := got == v1alpha1.DecidedCreateFailed || got == v1alpha1.DecidedUpdateFailed || got == v1alpha1.DecidedRecovering || (got == v1alpha1.DecidedForeignRemediation && e.outcome.Blocker() != nil) ||
		(got == v1alpha1.DecidedLeaseTaken && e.outcome.Result == remediation.LeaseLost) || (got == v1alpha1.DecidedAwaitingDeletion && e.outcome.Result == remediation.StillDeleting)
	if got != want && (want != "" || (!begun && !tried)) {
		w.violate(e.node.Name, "5.4", "decided %s, it has to be %q", got, want)
	}
}
