// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineHealthCheck says which Machines are observed, what makes them unhealthy, and how an
// unhealthy Machine is replaced or repaired.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=machinehealthchecks,singular=machinehealthcheck,scope=Namespaced,shortName=mhc;mhcs
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=MaxUnhealthy,type=string,JSONPath=`.spec.maxUnhealthy`,description="Maximum number of unhealthy machines allowed"
// +kubebuilder:printcolumn:name=ExpectedMachines,type=integer,JSONPath=`.status.expectedMachines`,description="Number of machines currently monitored"
// +kubebuilder:printcolumn:name=CurrentHealthy,type=integer,JSONPath=`.status.currentHealthy`,description="Current observed healthy machines"
type MachineHealthCheck struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	// +optional
	Spec MachineHealthCheckSpec `json:"spec,omitempty"`
	// status is what the controller found and does.
	// +optional
	Status MachineHealthCheckStatus `json:"status,omitempty"`
}

// MachineHealthCheckList is a list of MachineHealthChecks.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type MachineHealthCheckList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineHealthCheck `json:"items"`
}

// MachineHealthCheckSpec is what the user wants.
type MachineHealthCheckSpec struct {
	// selector matches the Machines in the namespace of the MachineHealthCheck that are
	// observed. An empty selector matches all of them, the control plane too.
	// +optional
	Selector metav1.LabelSelector `json:"selector,omitempty"`

	// unhealthyConditions are the conditions of the Node of a Machine that make the Machine
	// unhealthy. One that has lasted for its timeout is enough.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	UnhealthyConditions []UnhealthyCondition `json:"unhealthyConditions,omitempty"`

	// maxUnhealthy is a number of Machines, or a percentage of the selected Machines. While
	// more of them are unhealthy, no remediation begins. Percentages are rounded down. With 0
	// and 0%, none begins.
	// +optional
	// +kubebuilder:default="100%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	MaxUnhealthy *IntOrString `json:"maxUnhealthy,omitempty"`

	// nodeStartupTimeout is how long a Machine may be without a Node. "0" turns this check off.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	NodeStartupTimeout *string `json:"nodeStartupTimeout,omitempty"`

	// remediationTemplate refers to the template, in the namespace of the MachineHealthCheck,
	// from which a remediation object is created for an unhealthy Machine. Without it the
	// Machine is deleted.
	// +optional
	RemediationTemplate *corev1.ObjectReference `json:"remediationTemplate,omitempty"`
}

// UnhealthyCondition makes a Machine unhealthy whose Node has the condition of this type with
// this status for this time.
type UnhealthyCondition struct {
	// type of the Node condition.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	Type corev1.NodeConditionType `json:"type,omitempty"`
	// status of the Node condition.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	Status corev1.ConditionStatus `json:"status,omitempty"`
	// timeout is how long the Node condition must have had this status, counted from its
	// lastTransitionTime.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	Timeout string `json:"timeout,omitempty"`
}
