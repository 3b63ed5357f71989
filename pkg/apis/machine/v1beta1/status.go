// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// MachineHealthCheckStatus is what the controller found and does. The first four fields are
// OpenShift's. Its CRD does not know the others, and the API server drops them there.
type MachineHealthCheckStatus struct {
	// expectedMachines is the number of selected Machines.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ExpectedMachines *int `json:"expectedMachines,omitempty"`

	// currentHealthy is the number of selected Machines that are healthy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CurrentHealthy *int `json:"currentHealthy,omitempty"`

	// remediationsAllowed is how many more Machines may become unhealthy before maxUnhealthy
	// keeps remediations from beginning.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RemediationsAllowed *int32 `json:"remediationsAllowed,omitempty"`

	// conditions are RemediationAllowed and, where they have something to say,
	// ExternalRemediationTemplateAvailable, ExternalRemediationRequestAvailable and
	// SelectorOverlap.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status is for.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ignoredMachines is the number of Machines that the selector matches and that belong to
	// other clusters.
	// +optional
	IgnoredMachines *int `json:"ignoredMachines,omitempty"`

	// unhealthyMachines are the selected Machines that are not healthy, those under
	// remediation first, then by name. The counts are exact, whatever is listed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	UnhealthyMachines []UnhealthyMachine `json:"unhealthyMachines,omitempty"`

	// remediationHistory lists remediations, newest first: the 20 that ended last, and up to
	// 50 that have not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=70
	RemediationHistory []Remediation `json:"remediationHistory,omitempty"`

	// remediationKinds are the kinds of the remediation objects that there may be: that of
	// remediationTemplate, and those of former templates for as long as objects are left. A
	// process that starts later finds these objects by it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	RemediationKinds []RemediationKind `json:"remediationKinds,omitempty"`
}

// RemediationKind is a kind of remediation objects.
type RemediationKind struct {
	// apiVersion of the objects.
	// +required
	APIVersion string `json:"apiVersion"`
	// kind of the objects.
	// +required
	Kind string `json:"kind"`
}

// Condition is a condition with the severity that OpenShift's API gives it.
type Condition struct {
	// type of the condition.
	// +required
	Type string `json:"type"`
	// status is True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// severity is set while the status is False.
	// +optional
	Severity ConditionSeverity `json:"severity,omitempty"`
	// lastTransitionTime is when the status last changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// reason of the status.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message explains it.
	// +optional
	Message string `json:"message,omitempty"`
}

// ConditionSeverity is how bad it is that a condition is False.
type ConditionSeverity string

const (
	// SeverityError means that a person has to do something.
	SeverityError ConditionSeverity = "Error"
	// SeverityWarning means that a person should look at it.
	SeverityWarning ConditionSeverity = "Warning"
)

// UnhealthyMachine is a selected Machine that is not healthy.
type UnhealthyMachine struct {
	// name of the Machine.
	// +required
	Name string `json:"name"`
	// node is the name of its Node, absent if it has none.
	// +optional
	Node string `json:"node,omitempty"`
	// trigger is what makes the Machine unhealthy.
	// +optional
	Trigger *MachineTrigger `json:"trigger,omitempty"`
	// detected is when that began.
	// +optional
	Detected *metav1.Time `json:"detected,omitempty"`
	// decision says what the controller does about the Machine, and why no more.
	// +required
	Decision v1alpha1.Decision `json:"decision"`
}

// MachineTrigger is what makes a Machine unhealthy.
//
// +structType=atomic
type MachineTrigger struct {
	// type of the Node condition, absent if none is the reason.
	// +optional
	Type corev1.NodeConditionType `json:"type,omitempty"`
	// status of the Node condition.
	// +optional
	Status corev1.ConditionStatus `json:"status,omitempty"`
	// reason is MachineFailed, NodeMissing, NodeStartupTimeout or UnhealthyCondition.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Remediation is one remediation of a Machine or its Node.
type Remediation struct {
	// targetKind is Node if a condition of the Node was the trigger, and Machine otherwise.
	// +required
	TargetKind string `json:"targetKind"`
	// targetName is the name of that object.
	// +required
	TargetName string `json:"targetName"`
	// machine is the name of the Machine.
	// +optional
	Machine string `json:"machine"`
	// node is the name of its Node, as it was last.
	// +optional
	Node string `json:"node,omitempty"`
	// conditionType is the type of the condition that was the trigger.
	// +optional
	ConditionType corev1.NodeConditionType `json:"conditionType,omitempty"`
	// conditionStatus is its status.
	// +optional
	ConditionStatus corev1.ConditionStatus `json:"conditionStatus,omitempty"`
	// reason of the remediation if no condition was the trigger.
	// +optional
	Reason string `json:"reason,omitempty"`
	// detected is when the condition took its status, or when the reason was first seen.
	// +required
	Detected metav1.Time `json:"detected"`
	// started is when the Machine was requested to be deleted, when the external remediation was
	// requested, or when the remediation object was created.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`
	// fenced is the first sign that the Node was down for certain.
	// +optional
	Fenced *metav1.Time `json:"fenced,omitempty"`
	// finished is when the Machine, or its replacement, was healthy again.
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`
	// closed is when the entry ended without that: the replacement was itself remediated or
	// vanished, the owner is gone, or a day has passed.
	// +optional
	Closed *metav1.Time `json:"closed,omitempty"`
	// remediationType is machineDeletion or external.
	// +optional
	RemediationType RemediationType `json:"remediationType,omitempty"`
	// replacement is the Machine that the owner has created instead.
	// +optional
	Replacement string `json:"replacement,omitempty"`
	// owner is the uid of the controller of a Machine that was deleted, by which its
	// replacement is found.
	// +optional
	Owner string `json:"owner,omitempty"`
}

// RemediationType is how a Machine is remediated.
type RemediationType string

const (
	// RemediationMachineDeletion deletes the Machine, so that its owner makes another one.
	RemediationMachineDeletion RemediationType = "machineDeletion"
	// RemediationExternal leaves it to another controller.
	RemediationExternal RemediationType = "external"
)
