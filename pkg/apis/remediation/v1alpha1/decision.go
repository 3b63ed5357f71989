// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Decision is what the controller has decided about one Node.
//
// +structType=atomic
type Decision struct {
	// type is Remediating while a remediator is working on the Node, and otherwise the
	// kind of the reason.
	// +required
	Type DecisionType `json:"type"`
	// reason says why nothing more happens.
	// +required
	Reason DecisionReason `json:"reason"`
	// message explains the decision, with the numbers it was made from. It is absent
	// where the reason holds for the whole NodeHealthCheck: condition
	// RemediationAllowed has the message then.
	// +optional
	Message string `json:"message,omitempty"`
	// since is when this type and reason were decided first without interruption.
	// +required
	Since metav1.Time `json:"since"`
	// nextCheckTime is when time alone changes the decision. It is absent if only an event
	// changes the decision, or if another client may put it off.
	// +optional
	NextCheckTime *metav1.Time `json:"nextCheckTime,omitempty"`
}

// SameReason reports whether two decisions are the same except for their message and
// times. Nothing is the same as no decision.
func (d *Decision) SameReason(other *Decision) bool {
	return d != nil && other != nil && d.Type == other.Type && d.Reason == other.Reason
}

// DecisionType is the kind of a decision about a Node.
// The schema accepts any: a later version may have others.
type DecisionType string

const (
	// DecisionRemediating means that a remediator is working on the Node.
	DecisionRemediating DecisionType = "Remediating"
	// DecisionWaiting means that the controller is about to do something. What it waits for
	// passes by itself, or the controller tries again.
	DecisionWaiting DecisionType = "Waiting"
	// DecisionHeld means that the state of the cluster or the wish of a user forbids to
	// begin.
	DecisionHeld DecisionType = "Held"
	// DecisionDelayed means that the Node is healthy and healthyDelay keeps its
	// remediation objects.
	DecisionDelayed DecisionType = "Delayed"
	// DecisionExhausted means that the last step is over and the Node is still
	// unhealthy: it takes a person.
	DecisionExhausted DecisionType = "Exhausted"
)

// DecisionReason is the key under which a decision is found in status, events,
// metrics and logs. The list is closed.
//
// +kubebuilder:validation:MaxLength=64
type DecisionReason string

// Reasons of decisions of type Remediating.
const (
	// DecidedStepRunning: the remediator of the current step is working.
	DecidedStepRunning DecisionReason = "StepRunning"
	// DecidedStepSucceeded: the remediator reports success, the Node is not
	// healthy yet.
	DecidedStepSucceeded DecisionReason = "StepSucceeded"
	// DecidedAwaitingReplacement: the Node is gone for good, and its remediator is
	// about to replace it.
	DecidedAwaitingReplacement DecisionReason = "AwaitingReplacement"
)

// Reasons of decisions of type Waiting.
const (
	// DecidedControlPlaneBusy: another control plane node is under remediation.
	DecidedControlPlaneBusy DecisionReason = "ControlPlaneBusy"
	// DecidedEtcdQuorum: etcd cannot do without the control plane node.
	DecidedEtcdQuorum DecisionReason = "EtcdQuorum"
	// DecidedForeignRemediation: a remediation object that the NodeHealthCheck does not
	// own is in the way.
	DecidedForeignRemediation DecisionReason = "ForeignRemediation"
	// DecidedMachineUnreadable: the Machine that would own the remediation object
	// cannot be read. After 30 seconds it is created without.
	DecidedMachineUnreadable DecisionReason = "MachineUnreadable"
	// DecidedLeaseTaken: another holder has the lease of the Node.
	DecidedLeaseTaken DecisionReason = "LeaseTaken"
	// DecidedAwaitingDeletion: remediation objects have to be gone first.
	DecidedAwaitingDeletion DecisionReason = "AwaitingDeletion"
	// DecidedSoonUnhealthy: the Node is neither unhealthy nor healthy at the
	// moment, so nothing begins and nothing ends.
	DecidedSoonUnhealthy DecisionReason = "SoonUnhealthy"
	// DecidedVanished: remediation objects of the step were deleted while the Node was not
	// healthy, so the next one waits.
	DecidedVanished DecisionReason = "RemediationVanished"
	// DecidedNextBatch: so many remediations begin at the same time that this one waits
	// for the next batch.
	DecidedNextBatch DecisionReason = "NextBatch"
	// DecidedRecovering: a live read showed the Node no longer unhealthy.
	DecidedRecovering DecisionReason = "Recovering"
	// DecidedUnreadable: remediation objects that status names cannot be read.
	DecidedUnreadable DecisionReason = "RemediationUnreadable"
	// DecidedCreateFailed: the remediation object could not be created. It is tried
	// again.
	DecidedCreateFailed DecisionReason = "CreateFailed"
	// DecidedDeleteFailed: a remediation object could not be deleted. It is tried
	// again.
	DecidedDeleteFailed DecisionReason = "DeleteFailed"
	// DecidedUpdateFailed: a remediation object could not be marked as timed out, or
	// the lease for the next one not be written. It is tried again.
	DecidedUpdateFailed DecisionReason = "UpdateFailed"
)

// Reasons of decisions of type Held.
const (
	// DecidedInvalidSpec: the stored spec breaks a rule of admission.
	DecidedInvalidSpec DecisionReason = "InvalidSpec"
	// DecidedTerminating: the NodeHealthCheck is being deleted.
	DecidedTerminating DecisionReason = "Terminating"
	// DecidedDisabled: condition Disabled is True, or is not known yet.
	DecidedDisabled DecisionReason = "Disabled"
	// DecidedClockUntrusted: the clock of the controller is too far ahead of that of the
	// API server.
	DecidedClockUntrusted DecisionReason = "ClockUntrusted"
	// DecidedClusterUpgrading: the cluster is being upgraded.
	DecidedClusterUpgrading DecisionReason = "ClusterUpgrading"
	// DecidedPaused: there are pauseRequests.
	DecidedPaused DecisionReason = "Paused"
	// DecidedGateClosed: too few nodes are healthy.
	DecidedGateClosed DecisionReason = "GateClosed"
	// DecidedStormActive: storm recovery is active.
	DecidedStormActive DecisionReason = "StormActive"
	// DecidedExcluded: the Node carries the exclusion label.
	DecidedExcluded DecisionReason = "Excluded"
	// DecidedMachineHealthCheck: the Machine of the Node belongs to a MachineHealthCheck, or a
	// remediation of it goes on.
	DecidedMachineHealthCheck DecisionReason = "MachineHealthCheck"
	// DecidedBudgetExhausted: a RemediationBudget refuses the Node.
	DecidedBudgetExhausted DecisionReason = "BudgetExhausted"
	// DecidedUnselected: the Node is no longer selected.
	DecidedUnselected DecisionReason = "Unselected"
	// DecidedDryRun: nothing else is in the way, and the mode is DryRun.
	DecidedDryRun DecisionReason = "DryRun"
)

const (
	// DecidedHealthyDelay is the reason of decisions of type Delayed.
	DecidedHealthyDelay DecisionReason = "HealthyDelay"
)

// Reasons of decisions of type Exhausted.
const (
	// DecidedNoTemplateLeft: the last step is over.
	DecidedNoTemplateLeft DecisionReason = "NoTemplateLeft"
	// DecidedStepFailed: the remediator reports a failure, and no step follows.
	DecidedStepFailed DecisionReason = "StepFailed"
)

// decisionTypes are the types of decisions by their reasons.
var decisionTypes = map[DecisionReason]DecisionType{
	DecidedStepRunning: DecisionRemediating, DecidedStepSucceeded: DecisionRemediating, DecidedAwaitingReplacement: DecisionRemediating,

	DecidedControlPlaneBusy: DecisionWaiting, DecidedEtcdQuorum: DecisionWaiting, DecidedForeignRemediation: DecisionWaiting,
	DecidedMachineUnreadable: DecisionWaiting, DecidedVanished: DecisionWaiting,
	DecidedLeaseTaken: DecisionWaiting, DecidedAwaitingDeletion: DecisionWaiting, DecidedSoonUnhealthy: DecisionWaiting,
	DecidedNextBatch: DecisionWaiting, DecidedRecovering: DecisionWaiting, DecidedUnreadable: DecisionWaiting,
	DecidedCreateFailed: DecisionWaiting, DecidedDeleteFailed: DecisionWaiting, DecidedUpdateFailed: DecisionWaiting,

	DecidedInvalidSpec: DecisionHeld, DecidedTerminating: DecisionHeld, DecidedDisabled: DecisionHeld, DecidedClockUntrusted: DecisionHeld,
	DecidedClusterUpgrading: DecisionHeld, DecidedPaused: DecisionHeld, DecidedGateClosed: DecisionHeld,
	DecidedStormActive: DecisionHeld, DecidedExcluded: DecisionHeld, DecidedUnselected: DecisionHeld,
	DecidedDryRun: DecisionHeld, DecidedMachineHealthCheck: DecisionHeld, DecidedBudgetExhausted: DecisionHeld,

	DecidedHealthyDelay:   DecisionDelayed,
	DecidedNoTemplateLeft: DecisionExhausted, DecidedStepFailed: DecisionExhausted,
}

// Type returns the type of the decisions that have this reason while no remediator is
// working on the Node, and nothing for an unknown reason.
func (r DecisionReason) Type() DecisionType { return decisionTypes[r] }

// DecisionReasons returns all reasons with their types. The map
// is the caller's.
func DecisionReasons() map[DecisionReason]DecisionType { return maps.Clone(decisionTypes) }
