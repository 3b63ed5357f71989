// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"maps"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Reasons of a MachineTrigger (spec M6.2), in the order in which they are named if several hold.
const (
	// TriggerMachineFailed: the phase of the Machine is Failed.
	TriggerMachineFailed = "MachineFailed"
	// TriggerNodeMissing: the Machine names a Node that does not exist.
	TriggerNodeMissing = "NodeMissing"
	// TriggerNodeStartupTimeout: the Machine has had no Node for nodeStartupTimeout.
	TriggerNodeStartupTimeout = "NodeStartupTimeout"
	// TriggerUnhealthyCondition: a condition of the Node has lasted for its timeout.
	TriggerUnhealthyCondition = "UnhealthyCondition"
)

// Reasons of decisions about Machines that nodes do not have (spec M8.3). The others are those of
// package v1alpha1.
const (
	// DecidedMachineDeleting: the Machine is being deleted.
	DecidedMachineDeleting v1alpha1.DecisionReason = "MachineDeleting"
	// DecidedExternalRemediation: another controller remediates the Machine.
	DecidedExternalRemediation v1alpha1.DecisionReason = "ExternalRemediation"

	// DecidedRemediationOverdue: the remediation has not ended for 30 min.
	DecidedRemediationOverdue v1alpha1.DecisionReason = "RemediationOverdue"

	// DecidedNotStarted: the Machine has no Node yet.
	DecidedNotStarted v1alpha1.DecisionReason = "NotStarted"
	// DecidedBackOff: Machines of this owner have failed one after the other.
	DecidedBackOff v1alpha1.DecisionReason = "BackOff"

	// DecidedMachinePaused: the Machine is paused, or is not managed by the Machine API.
	DecidedMachinePaused v1alpha1.DecisionReason = "MachinePaused"
	// DecidedClusterPaused: the Cluster of the Machine is paused.
	DecidedClusterPaused v1alpha1.DecisionReason = "ClusterPaused"
	// DecidedAmbiguousNode: another Machine names the same Node.
	DecidedAmbiguousNode v1alpha1.DecisionReason = "AmbiguousNode"
	// DecidedOtherHealthCheck: another health check remediates the Machine, or forbids it.
	DecidedOtherHealthCheck v1alpha1.DecisionReason = "OtherHealthCheck"
	// DecidedNoController: no controller owns the Machine, so none would replace it.
	DecidedNoController v1alpha1.DecisionReason = "NoController"
	// DecidedControlPlaneProvider: only its provider may delete a control plane Machine of
	// Cluster API.
	DecidedControlPlaneProvider v1alpha1.DecisionReason = "ControlPlaneProvider"
	// DecidedTemplateUnavailable: the remediation template, or its kind, is missing.
	DecidedTemplateUnavailable v1alpha1.DecisionReason = "TemplateUnavailable"
)

// decisionTypes are the types of decisions about Machines, by their reasons.
var decisionTypes = map[v1alpha1.DecisionReason]v1alpha1.DecisionType{
	DecidedMachineDeleting: v1alpha1.DecisionRemediating, DecidedExternalRemediation: v1alpha1.DecisionRemediating,
	v1alpha1.DecidedStepRunning: v1alpha1.DecisionRemediating,

	DecidedRemediationOverdue: v1alpha1.DecisionExhausted,

	DecidedNotStarted: v1alpha1.DecisionWaiting, v1alpha1.DecidedSoonUnhealthy: v1alpha1.DecisionWaiting, DecidedBackOff: v1alpha1.DecisionWaiting,
	v1alpha1.DecidedVanished:         v1alpha1.DecisionWaiting,
	v1alpha1.DecidedControlPlaneBusy: v1alpha1.DecisionWaiting, v1alpha1.DecidedEtcdQuorum: v1alpha1.DecisionWaiting,
	v1alpha1.DecidedLeaseTaken: v1alpha1.DecisionWaiting, v1alpha1.DecidedForeignRemediation: v1alpha1.DecisionWaiting,
	v1alpha1.DecidedAwaitingDeletion: v1alpha1.DecisionWaiting, v1alpha1.DecidedRecovering: v1alpha1.DecisionWaiting, v1alpha1.DecidedNextBatch: v1alpha1.DecisionWaiting,
	v1alpha1.DecidedCreateFailed: v1alpha1.DecisionWaiting, v1alpha1.DecidedDeleteFailed: v1alpha1.DecisionWaiting, v1alpha1.DecidedUpdateFailed: v1alpha1.DecisionWaiting,

	v1alpha1.DecidedUnselected: v1alpha1.DecisionHeld, v1alpha1.DecidedDryRun: v1alpha1.DecisionHeld, v1alpha1.DecidedBudgetExhausted: v1alpha1.DecisionHeld,
	v1alpha1.DecidedInvalidSpec: v1alpha1.DecisionHeld, v1alpha1.DecidedTerminating: v1alpha1.DecisionHeld,
	v1alpha1.DecidedClockUntrusted: v1alpha1.DecisionHeld, v1alpha1.DecidedClusterUpgrading: v1alpha1.DecisionHeld,
	v1alpha1.DecidedPaused: v1alpha1.DecisionHeld, v1alpha1.DecidedGateClosed: v1alpha1.DecisionHeld, v1alpha1.DecidedExcluded: v1alpha1.DecisionHeld,
	DecidedMachinePaused: v1alpha1.DecisionHeld, DecidedClusterPaused: v1alpha1.DecisionHeld, DecidedAmbiguousNode: v1alpha1.DecisionHeld,
	DecidedOtherHealthCheck: v1alpha1.DecisionHeld, DecidedNoController: v1alpha1.DecisionHeld,
	DecidedControlPlaneProvider: v1alpha1.DecisionHeld, DecidedTemplateUnavailable: v1alpha1.DecisionHeld,
}

// DecisionType returns the type of the decisions about Machines that have this reason. It is
// empty for an unknown reason.
func DecisionType(reason v1alpha1.DecisionReason) v1alpha1.DecisionType { return decisionTypes[reason] }

// DecisionReasons returns all reasons of decisions about Machines with their types. The map is
// the caller's.
func DecisionReasons() map[v1alpha1.DecisionReason]v1alpha1.DecisionType {
	return maps.Clone(decisionTypes)
}
