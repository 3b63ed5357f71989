// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TargetResult is a plan with its outcome.
type TargetResult struct {
	Plan    *Plan
	Outcome *remediation.Outcome
}

// Decision returns the decision about a target and its reason, after its plan was carried out. It
// returns the zero value if there is nothing to report, and never sets Since. The same plan and
// outcome give the same decision.
func (p *Policy) Decision(result TargetResult) v1alpha1.Decision {
	plan, outcome := result.Plan, result.Outcome
	reason, until, message := plan.Decided(outcome)
	if outcome.Result == remediation.Blocked {
		message = explainForeign(outcome.Blocker())
	}
	if reason == "" {
		return v1alpha1.Decision{}
	}
	if message == "" {
		message = p.explain(plan, reason)
	}
	return v1alpha1.Decision{
		Type: v1beta1.DecisionType(reason), Reason: reason,
		Message: object.Truncate(message, maxMessage), NextCheckTime: remediation.Storable(until),
	}
}

// maxMessage is how many bytes of a message are kept: there may be a thousand in one object.
const maxMessage = 512

// explain returns the message of a reason for a target.
func (p *Policy) explain(plan *Plan, reason v1alpha1.DecisionReason) string {
	t := plan.Target
	if withheld := plan.Withheld; withheld != nil && withheld.Reason == reason && withheld.Message != "" {
		return withheld.Message
	}
	switch reason {
	case v1beta1.DecidedMachineDeleting:
		return "The Machine is being deleted"
	case v1beta1.DecidedExternalRemediation:
		return "An external remediation of the Machine is running until its controller removes annotation " + v1beta1.AnnotationExternalRemediation
	case v1alpha1.DecidedStepRunning:
		return "Remediation object " + t.Machine.Name + " is running"
	case v1beta1.DecidedRemediationOverdue:
		return explainOverdue(t)
	case v1beta1.DecidedNotStarted:
		return "The Machine has no Node yet"
	case v1alpha1.DecidedSoonUnhealthy:
		if t.Verdict.Type == "" {
			return "The controller does not know yet whether the Node of the Machine exists"
		}
		return plan.Node.Explain(reason)
	case v1beta1.DecidedBackOff:
		return p.explainBackOff(t)
	case v1alpha1.DecidedVanished:
		return "The remediation was withdrawn while the Machine was unhealthy, by its remediator or another client, at " + t.Vanished.UTC().Format(time.RFC3339)
	case v1alpha1.DecidedForeignRemediation:
		return explainForeign(t.Foreign)
	case v1alpha1.DecidedAwaitingDeletion:
		return "Waiting until remediation object " + t.Machine.Name + " is gone. A finalizer of its remediator may keep it"
	case v1alpha1.DecidedDryRun:
		return p.explainDryRun(plan)
	default:
		return p.explainHeld(plan, reason)
	}
}

// explainHeld explains a refusal that lasts until a user or another controller changes something.
func (p *Policy) explainHeld(plan *Plan, reason v1alpha1.DecisionReason) string {
	t := plan.Target
	switch reason {
	case v1alpha1.DecidedInvalidSpec:
		return p.Criteria.Problem
	case v1alpha1.DecidedTerminating:
		return "The MachineHealthCheck is being deleted"
	case v1alpha1.DecidedClockUntrusted:
		return "The clock of the controller is too far ahead of the clock of the API server, so the controller cannot know how long a condition has lasted"
	case v1alpha1.DecidedClusterUpgrading:
		if !p.Upgrading {
			return remediation.Updating
		}
		return remediation.Upgrading
	case v1alpha1.DecidedPaused:
		return "The MachineHealthCheck has annotation " + v1beta1.AnnotationPaused
	case v1alpha1.DecidedGateClosed:
		if p.Summary.Allowed() {
			return "More Machines were unhealthy than maxUnhealthy allows. This one was so then, and may be booting: it has to stay unhealthy for its timeout once more"
		}
		return "More Machines are unhealthy than maxUnhealthy allows: it begins when enough of them are healthy again"
	case v1beta1.DecidedMachinePaused:
		if t.Machine.Unmanaged {
			return "The Machine API is not authoritative for the Machine"
		}
		return "The Machine has annotation " + v1beta1.AnnotationPaused
	case v1beta1.DecidedClusterPaused:
		return "Cluster " + t.Machine.Cluster + " is paused"
	case v1alpha1.DecidedExcluded:
		return fmt.Sprintf("The Machine has annotation %s, or its Node has label %s", v1beta1.AnnotationSkipRemediation, v1alpha1.LabelExclude)
	case v1beta1.DecidedAmbiguousNode:
		return "Machine " + t.Obstacles.AmbiguousNode + " also names Node " + t.Machine.Node
	case v1beta1.DecidedOtherHealthCheck:
		return "MachineHealthCheck " + t.Obstacles.OtherCheck + " also selects the Machine, and comes first by its name, or is at work on it"
	case v1beta1.DecidedNoController:
		return "No controller owns the Machine, so nothing would replace it"
	case v1beta1.DecidedControlPlaneProvider:
		return "Only the control plane provider of Cluster API may delete this Machine, because the provider checks etcd first"
	case v1beta1.DecidedTemplateUnavailable:
		return p.TemplateProblem
	case v1alpha1.DecidedUnselected:
		return "The MachineHealthCheck no longer selects the Machine"
	default:
		return plan.Node.Explain(reason)
	}
}

// explainOverdue names the remediation that has not ended, and what to look at.
func explainOverdue(t *Target) string {
	minutes := int(maxRemediation / time.Minute)
	switch {
	case t.deleting():
		return fmt.Sprintf("The deletion of the Machine has not ended after %d minutes: look at its finalizers, its hooks and the drain of its Node", minutes)
	case len(t.Own) > 0 && t.Own[0].Deleting():
		return fmt.Sprintf("The deletion of remediation object %s has not ended after %d minutes: look at its finalizers and its remediator", t.Machine.Name, minutes)
	case len(t.Own) == 0:
		return fmt.Sprintf("The external remediation has not ended after %d minutes: its controller has not removed annotation %s", minutes, v1beta1.AnnotationExternalRemediation)
	}
	message := fmt.Sprintf("Remediation object %s has not ended after %d minutes: look at its remediator", t.Machine.Name, minutes)
	if trigger := t.Verdict.Trigger; trigger == v1beta1.TriggerNodeMissing || BackOffConcerns(trigger) {
		message += ". A repair in place seldom helps a Machine that is unhealthy by " + trigger
	}
	return message
}

func (p *Policy) explainBackOff(t *Target) string {
	return fmt.Sprintf("Machines of %s have failed before they joined (rounds so far: %d). The controller deletes this one %s after its creation at the earliest",
		t.Machine.Owner().Name, t.Rounds.Count, p.BackOff.Due(t.Rounds, t.Machine.CreationTimestamp.Time).Sub(t.Machine.CreationTimestamp.Time))
}

// explainForeign names the remediation object that blocks the plan. It is nil if it is unknown.
func explainForeign(cr *object.CR) string {
	if cr == nil {
		return "Remediation objects cannot be read, so one with another owner may exist"
	}
	var owners []string
	for i := range cr.OwnerReferences {
		if owner := &cr.OwnerReferences[i]; owner.Kind == v1beta1.Kind || owner.Kind == v1alpha1.Kind {
			owners = append(owners, owner.Kind+" "+owner.Name)
		}
	}
	return fmt.Sprintf("%s %s, which belongs to %s, is in the way", cr.Kind, cr.Name, cmp.Or(strings.Join(owners, ", "), "no health check"))
}

func (p *Policy) explainDryRun(plan *Plan) string {
	switch {
	case plan.Type == v1beta1.RemediationMachineDeletion:
		return "Would delete the Machine"
	case p.Criteria.Strategy == Annotate:
		return "Would request the external remediation of the Machine"
	default:
		return "Would create a remediation object"
	}
}
