// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

const (
	// Kind of a MachineHealthCheck.
	Kind = "MachineHealthCheck"
	// Plural is the name of the resource.
	Plural = "machinehealthchecks"
)

// Annotations of a MachineHealthCheck (spec M2).
const (
	// AnnotationPaused pauses a MachineHealthCheck, or a Machine, whatever its value is.
	AnnotationPaused = "cluster.x-k8s.io/paused"
	// AnnotationRemediationStrategy has Machines remediated by another controller if its value
	// is StrategyExternalBaremetal. The same key and value are written to such a Machine.
	AnnotationRemediationStrategy = "machine.openshift.io/remediation-strategy"
	// StrategyExternalBaremetal is the only strategy.
	StrategyExternalBaremetal = "external-baremetal"
	// AnnotationMachineAPI names the API group of the Machines: MachineAPIOpenShift, the
	// default, or MachineAPICluster.
	AnnotationMachineAPI = "nhc-controller.io/machine-api"
	// MachineAPIOpenShift is the Machine API of OpenShift.
	MachineAPIOpenShift = "machine.openshift.io"
	// MachineAPICluster is Cluster API.
	MachineAPICluster = "cluster.x-k8s.io"
)

// Keys of a Machine (spec M2).
const (
	// AnnotationExternalRemediation asks for an external remediation, and stays until its
	// consumer removes it.
	AnnotationExternalRemediation = "host.metal3.io/external-remediation"
	// AnnotationPoweredOff is what that consumer sets while the host is down.
	AnnotationPoweredOff = "remediation.metal3.io/powered-off-for-remediation"
	// AnnotationSkipRemediation excludes a Machine, whatever its value is.
	AnnotationSkipRemediation = "cluster.x-k8s.io/skip-remediation"
	// LabelRole has the value RoleMaster on a control plane Machine of OpenShift.
	LabelRole = "machine.openshift.io/cluster-api-machine-role"
	// RoleMaster is that value.
	RoleMaster = "master"
	// LabelControlPlane marks a control plane Machine of Cluster API, whatever its value is.
	LabelControlPlane = "cluster.x-k8s.io/control-plane"
	// LabelClusterName is set on remediation objects for Machines of Cluster API.
	LabelClusterName = "cluster.x-k8s.io/cluster-name"
)

// Conditions of a MachineHealthCheck and their reasons (spec M7.3, M7.4, M12.1).
const (
	// ConditionStalled is True while nothing begins until you correct something, and absent
	// otherwise, so that tools that know no other condition see it.
	ConditionStalled = "Stalled"

	// ConditionRemediationAllowed is False while too many Machines are unhealthy, or while Machines
	// cannot be read.
	ConditionRemediationAllowed = "RemediationAllowed"
	// ReasonTooManyUnhealthy is its reason in the first case.
	ReasonTooManyUnhealthy = "TooManyUnhealthy"
	// ReasonMachinesForbidden is its reason while the controller lacks a permission.
	ReasonMachinesForbidden = "MachinesForbidden"
	// ReasonMachinesUnreadable is its reason while Machines cannot be read for any other cause.
	ReasonMachinesUnreadable = "MachinesUnreadable"
	// ReasonMachinesNotServed is its reason while the API server does not serve Machines.
	ReasonMachinesNotServed = "MachinesNotServed"
	// ConditionTemplateAvailable is False while the remediation template cannot be used.
	ConditionTemplateAvailable = "ExternalRemediationTemplateAvailable"
	// ReasonTemplateNotFound is its reason.
	ReasonTemplateNotFound = "ExternalRemediationTemplateNotFound"
	// ConditionRequestAvailable is False while remediation objects cannot be created.
	ConditionRequestAvailable = "ExternalRemediationRequestAvailable"
	// ReasonRequestCreationFailed is its reason.
	ReasonRequestCreationFailed = "ExternalRemediationRequestCreationFailed"
	// ConditionSelectorOverlap is True while other MachineHealthChecks select the same Machines.
	ConditionSelectorOverlap = "SelectorOverlap"
	// ReasonOverlap is its reason.
	ReasonOverlap = "MachinesShared"
)

// Limits of the lists in status (spec M16).
const (
	// MaxUnhealthyMachines is how many Machines status lists at most.
	MaxUnhealthyMachines = 1000
	// MaxClosedRemediations is how many remediations that have ended the history lists.
	MaxClosedRemediations = 20
	// MaxOpenRemediations is how many others it lists at most.
	MaxOpenRemediations = 50
)
