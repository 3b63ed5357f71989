// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase summarises the state of a NodeHealthCheck. The schema accepts any: a later
// version may have others.
type Phase string

const (
	// PhaseDisabled means that condition Disabled is True.
	PhaseDisabled Phase = "Disabled"
	// PhasePaused means that there are pauseRequests.
	PhasePaused Phase = "Paused"
	// PhaseRemediating means that at least one Node has a remediation object.
	PhaseRemediating Phase = "Remediating"
	// PhaseEnabled means none of the others.
	PhaseEnabled Phase = "Enabled"
)

// NodeHealthCheckStatus is what the controller has found and is doing.
type NodeHealthCheckStatus struct {
	// observedGeneration is the generation of the spec this status is for.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// observedNodes is the number of selected Nodes.
	// +optional
	ObservedNodes *int32 `json:"observedNodes,omitempty"`

	// healthyNodes is the number of selected Nodes that are healthy and have no
	// remediation object left.
	// +optional
	HealthyNodes *int32 `json:"healthyNodes,omitempty"`

	// remediatingNodes is the number of Nodes that have a remediation object.
	// +optional
	RemediatingNodes *int32 `json:"remediatingNodes,omitempty"`

	// unhealthyNodeCount is the number of selected Nodes that are unhealthy, whether
	// unhealthyNodes has room for them or not.
	// +optional
	UnhealthyNodeCount *int32 `json:"unhealthyNodeCount,omitempty"`

	// remediationsAllowed is how many more Nodes may fail before minHealthy or
	// maxUnhealthy prevents new remediations. Other reasons may prevent them earlier.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RemediationsAllowed *int32 `json:"remediationsAllowed,omitempty"`

	// soonUnhealthyNodes is the number of selected Nodes with a condition that
	// makes them unhealthy once it has lasted for its duration.
	// +optional
	SoonUnhealthyNodes *int32 `json:"soonUnhealthyNodes,omitempty"`

	// unhealthyNodes are the Nodes that are unhealthy or have a remediation
	// object, by name. If there are more than fit, those with remediation
	// objects come first, and reason says how many are not listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5000
	UnhealthyNodes []UnhealthyNode `json:"unhealthyNodes,omitempty"`

	// remediationHistory has one entry per episode, newest detected first. It lists
	// up to remediationHistoryLimit episodes that have ended, and up to as many open
	// ones. Episodes without a remediation object are listed only where others leave
	// room.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	RemediationHistory []Episode `json:"remediationHistory,omitempty"`

	// conditions are Disabled, RemediationAllowed and SelectorOverlap; with storm recovery,
	// StormActive and StormCooldownActive; and, only while they have something to say,
	// LeftoverRemediations, PlatformAccess and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// stormRecoveryActive is true during a storm, and present when
	// stormRecoveryThreshold is set.
	// +optional
	StormRecoveryActive *bool `json:"stormRecoveryActive,omitempty"`

	// stormRecoveryStartTime is when the present storm began.
	// +optional
	StormRecoveryStartTime *metav1.Time `json:"stormRecoveryStartTime,omitempty"`

	// phase summarises the state.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// reason explains the phase.
	// +optional
	Reason string `json:"reason,omitempty"`

	// lastUpdateTime is when this status last changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`

	// inFlightRemediations is deprecated and always empty.
	// +optional
	InFlightRemediations map[string]metav1.Time `json:"inFlightRemediations,omitempty"`
}

// UnhealthyNode is a Node that is unhealthy or has a remediation object.
type UnhealthyNode struct {
	// name of the Node.
	// +required
	Name string `json:"name"`

	// remediations are the Node's remediation objects, in the order of the steps.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Remediations []Remediation `json:"remediations,omitempty"`

	// conditionsHealthyTimestamp is when the Node was first seen healthy while
	// remediation objects remain.
	// +optional
	ConditionsHealthyTimestamp *metav1.Time `json:"conditionsHealthyTimestamp,omitempty"`

	// healthyDelayed is true while healthyDelay keeps the remediation objects of
	// a healthy Node, and absent otherwise.
	// +optional
	HealthyDelayed *bool `json:"healthyDelayed,omitempty"`

	// trigger is the condition that made the Node unhealthy.
	// +optional
	Trigger *Trigger `json:"trigger,omitempty"`

	// detected is when that condition took its status. The Node was unhealthy once
	// the condition had lasted for its duration.
	// +optional
	Detected *metav1.Time `json:"detected,omitempty"`

	// decision tells what the controller does about the Node, and why no more.
	// +optional
	Decision *Decision `json:"decision,omitempty"`
}

// Remediation is one remediation object of a Node.
type Remediation struct {
	// resource is the remediation object.
	// +required
	Resource corev1.ObjectReference `json:"resource"`

	// started is when the remediation object was created.
	// +required
	Started metav1.Time `json:"started"`

	// timedOut is when the step ended without success.
	// +optional
	TimedOut *metav1.Time `json:"timedOut,omitempty"`

	// templateName is the name of the template the object was created from.
	// +optional
	TemplateName string `json:"templateName,omitempty"`
}

// Trigger is the Node condition that begins an episode.
//
// +structType=atomic
type Trigger struct {
	// type of the Node condition.
	// +required
	Type corev1.NodeConditionType `json:"type"`
	// status of the Node condition.
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// reason that the Node condition gave.
	// +optional
	Reason string `json:"reason,omitempty"`
}
