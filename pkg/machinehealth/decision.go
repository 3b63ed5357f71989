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

// Result is a plan together with what became of it.
type Result struct {
	Plan    *Plan
	Outcome *remediation.Outcome
}

// Begun reports whether the remediation of the Machine has begun by the plan.
func (r Result) Begun() bool {
	return r.Outcome.Result == remediation.Requested || r.Outcome.NewCR() != nil
}

// Decision says what was decided about a target, once its plan has been carried out, and why. It
// has no reason for one that there is nothing to be said about, and no since. The same plan and
// outcome give the same decision.
func (p *Policy) Decision(result Result) v1alpha1.Decision {
	plan, outcome := result.Plan, result.Outcome
	reason, until, message := plan.Reason, plan.Until, ""
	switch outcome.Result {
	case remediation.Failed, remediation.Unknown:
		reason, until, message = outcome.Reason, time.Time{}, remediation.FailureMessage(outcome.Err.Error())
	case remediation.Blocked:
		reason, until, message = v1alpha1.DecidedForeignRemediation, time.Time{}, explainForeign(outcome.Blocker())
	case remediation.Recovered:
		reason, until = v1alpha1.DecidedRecovering, time.Time{}
	case remediation.Refused:
		reason, until = outcome.Reason, time.Time{}
	case remediation.StillDeleting:
		reason, until = v1alpha1.DecidedAwaitingDeletion, time.Time{}
	case remediation.LeaseLost:
		switch {
		case !plan.Begins():
		case plan.Target.NodeUID == "": // Another Machine of the owner has begun the round.
			reason, until = v1alpha1.DecidedNextBatch, time.Time{}
		default:
			reason, until, message = v1alpha1.DecidedLeaseTaken, time.Time{}, "Another client has written the lease meanwhile"
		}
	case remediation.Deferred:
		if plan.Begins() {
			reason, until = v1alpha1.DecidedNextBatch, time.Time{}
		}
	default: // The plan was carried out, and its reason is what was decided.
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

// explain says what a reason means for a target, with what it was found by.
func (p *Policy) explain(plan *Plan, reason v1alpha1.DecisionReason) string {
	t := plan.Target
	switch reason {
	case v1beta1.DecidedMachineDeleting:
		return "The Machine is being deleted"
	case v1beta1.DecidedExternalRemediation:
		return "Another controller remediates the Machine, until it removes annotation " + v1beta1.AnnotationExternalRemediation
	case v1alpha1.DecidedStepRunning:
		return "The remediation object " + t.Machine.Name + " is at work"
	case v1beta1.DecidedNotStarted:
		return "The Machine has no Node yet"
	case v1alpha1.DecidedSoonUnhealthy:
		return explainSoon(&t.Verdict)
	case v1beta1.DecidedBackOff:
		return p.explainBackOff(t)
	case v1alpha1.DecidedControlPlaneBusy:
		return "Another control plane Machine or Node is under remediation, or this cannot be told"
	case v1alpha1.DecidedEtcdQuorum:
		return "etcd could lose its quorum without the Node of this Machine, or this cannot be told"
	case v1alpha1.DecidedLeaseTaken:
		return fmt.Sprintf("Lease %s is held by %q", object.LeaseName(t.Machine.Node), remediation.LeaseHolder(t.Lease))
	case v1alpha1.DecidedForeignRemediation:
		return explainForeign(t.Foreign)
	case v1alpha1.DecidedAwaitingDeletion:
		return "Waiting until the remediation object " + t.Machine.Name + " is gone, which its remediator may hold by a finalizer"
	case v1alpha1.DecidedRecovering:
		return "The Machine itself is no longer unhealthy, the watch is about to tell"
	case v1alpha1.DecidedNextBatch:
		return "It begins with the next sync, which follows at once: there are many, or the Machine has changed"
	case v1alpha1.DecidedCreateFailed, v1alpha1.DecidedDeleteFailed, v1alpha1.DecidedUpdateFailed:
		return remediation.FailureMessage(t.LastFailure)
	case v1alpha1.DecidedDryRun:
		return p.explainDryRun(plan)
	default:
		return p.explainHeld(t, reason)
	}
}

// explainHeld says what keeps a remediation from beginning until somebody changes it.
func (p *Policy) explainHeld(t *Target, reason v1alpha1.DecisionReason) string {
	switch reason {
	case v1alpha1.DecidedInvalidSpec:
		return p.Criteria.Problem
	case v1alpha1.DecidedTerminating:
		return "The MachineHealthCheck is being deleted"
	case v1alpha1.DecidedClockUntrusted:
		return "The clock of the controller is too far ahead of that of the API server, so it is not known for how long anything has lasted"
	case v1alpha1.DecidedClusterUpgrading:
		return "The cluster is being upgraded"
	case v1alpha1.DecidedPaused:
		return "The MachineHealthCheck has annotation " + v1beta1.AnnotationPaused
	case v1alpha1.DecidedGateClosed:
		return p.Summary.Explain()
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
		return "Another Machine names Node " + t.Machine.Node + ", too"
	case v1beta1.DecidedOtherHealthCheck:
		return "MachineHealthCheck " + t.Obstacles.OtherCheck + " selects the Machine, too, and is first, or does not allow it"
	case v1beta1.DecidedNoController:
		return "No controller owns the Machine, so it would not be replaced"
	case v1beta1.DecidedControlPlaneProvider:
		return "Only its provider may delete a control plane Machine of Cluster API, because it looks after etcd"
	case v1beta1.DecidedTemplateUnavailable:
		return p.TemplateProblem
	case v1alpha1.DecidedUnselected:
		return "The Machine is no longer selected"
	default:
		return string(reason)
	}
}

func explainSoon(v *Verdict) string {
	switch {
	case v.Type == "":
		return "The Node of the Machine is not known to exist"
	case v.Deadline.IsZero():
		return fmt.Sprintf("Condition %s=%s has no lastTransitionTime, so its duration is not known to be over", v.Type, v.Status)
	default:
		return fmt.Sprintf("Condition %s=%s has not lasted for its timeout yet", v.Type, v.Status)
	}
}

func (p *Policy) explainBackOff(t *Target) string {
	rounds := RoundsOf(t.Rounds)
	return fmt.Sprintf("Machines of %s have failed before they joined, in %d rounds: this one is deleted at the earliest %s after its creation",
		t.Machine.Owner().Name, rounds.Count, p.BackOff.Due(rounds, t.Machine.CreationTimestamp.Time).Sub(t.Machine.CreationTimestamp.Time))
}

// explainForeign names what is in the way, nil if that is not known.
func explainForeign(cr *object.CR) string {
	if cr == nil {
		return "Remediation objects cannot be read, so there may be one of somebody else"
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
