// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "time"

// Annotations and labels that the controller reads or writes. Remediators and
// the upstream operator use the same ones.
const (
	// AnnotationNodeName names the Node a remediation object is for.
	AnnotationNodeName = "remediation.medik8s.io/node-name"
	// AnnotationTemplateName names the template a remediation object was created
	// from.
	AnnotationTemplateName = "remediation.medik8s.io/template-name"
	// AnnotationTimedOut on a remediation object tells its remediator to stop. Its
	// value is the time of that decision, RFC 3339 in UTC.
	AnnotationTimedOut = "remediation.medik8s.io/nhc-timed-out"
	// AnnotationMultipleTemplates on a template says that its remediator accepts
	// remediation objects that are not named like the Node. Its presence counts.
	AnnotationMultipleTemplates = "remediation.medik8s.io/multiple-templates-support"
	// AnnotationManuallyConfirmedHealthy on a Node ends the healthy delay of that
	// Node. Its presence counts.
	AnnotationManuallyConfirmedHealthy = "remediation.medik8s.io/manually-confirmed-healthy"
	// AnnotationAllowDelete on a NodeHealthCheck permits its deletion during a
	// remediation. Its presence counts.
	AnnotationAllowDelete = "remediation.medik8s.io/allow-delete-while-remediating"

	// LabelPartOf is on every remediation object, with the value PartOf.
	LabelPartOf = "app.kubernetes.io/part-of"
	// PartOf is the value of LabelPartOf.
	PartOf = "node-healthcheck-controller"
	// LabelControlPlane is on the remediation objects of control plane nodes, with
	// an empty value.
	LabelControlPlane = "remediation.medik8s.io/isControlPlaneNode"
	// LabelEtcd on a Node says whether etcd runs on it, "true" or "false", and wins over the labels of its roles.
	LabelEtcd = "nhc-controller.io/etcd"
	// LabelExclude on a Node, with the value "true", exempts it from remediation.
	LabelExclude = "remediation.medik8s.io/exclude-from-remediation"
	// AnnotationPauseReason on such a Node says why, one reason on each line, for people.
	AnnotationPauseReason = "nhc-controller.io/pause-reason"
	// LabelAggregate, with the value "true", on a ClusterRole grants its rules to
	// the controller.
	LabelAggregate = "rbac.ext-remediation/aggregate-to-ext-remediation"
)

const (
	// TemplateKindSuffix ends the kind of every template; the rest is the kind of
	// its remediation objects.
	TemplateKindSuffix = "Template"

	// Kind of the NodeHealthCheck.
	Kind = "NodeHealthCheck"
	// Plural is the resource name of the NodeHealthCheck.
	Plural = "nodehealthchecks"
)

const (
	// ClassicDuration is the duration of the single step of a NodeHealthCheck
	// with remediationTemplate.
	ClassicDuration = 10 * time.Minute
	// MinimumTimeout is the smallest timeout of an escalation step.
	MinimumTimeout = time.Minute
	// LeaseBuffer is by how much the lease of a node outlasts the step it is for.
	LeaseBuffer = time.Minute
	// ClassicLeaseOverdue is the age at which the lease of a classic remediation
	// ends it.
	ClassicLeaseOverdue = 30 * time.Minute
	// MachineReadTimeout is how long a remediation object waits for a Machine that cannot be
	// read and would own it.
	MachineReadTimeout = 30 * time.Second
	// ReminderDelay is how long a remediator has to release its remediation object after
	// both its deletion and the return of its Node, before it is told again to stop.
	ReminderDelay = time.Minute
	// OldRemediationAge is the age above which a remediation object is reported as
	// old.
	OldRemediationAge = 48 * time.Hour
)

// ConditionDisabled is True while the NodeHealthCheck can start nothing because
// of its templates or of a conflict.
const ConditionDisabled = "Disabled"

// Reasons of the condition Disabled.
const (
	// ReasonEnabled is the reason while the condition is False.
	ReasonEnabled = "NodeHealthCheckEnabled"
	// ReasonTemplateNotFound means that a template or a kind does not exist.
	ReasonTemplateNotFound = "RemediationTemplateNotFound"
	// ReasonTemplateInvalid means that a template cannot be used as it is.
	ReasonTemplateInvalid = "RemediationTemplateInvalid"
	// ReasonTemplateForbidden means that the controller lacks a permission.
	ReasonTemplateForbidden = "RemediationTemplateForbidden"
	// ReasonConflict means that a MachineHealthCheck watches the same machines.
	ReasonConflict = "ConflictingMachineHealthCheckDetected"
	// ReasonPlatformForbidden means that the controller may not read a resource of
	// the platform. It is also one of condition PlatformAccess.
	ReasonPlatformForbidden = "PlatformForbidden"
)

// MessageEnabled is the message of the condition Disabled while it is False.
const MessageEnabled = "No issues found, NodeHealthCheck is enabled."

// Conditions of storm recovery (spec 9.8). They are absent before the first storm
// and without the fields that configure it.
const (
	// ConditionStormActive is True while a storm keeps first remediations from
	// being started.
	ConditionStormActive = "StormActive"
	// ConditionStormCooldownActive is True while the storm is calm and its cooldown
	// runs.
	ConditionStormCooldownActive = "StormCooldownActive"
	// ReasonStorm is the reason of both.
	ReasonStorm = "HealthyNodeThresholdChange"
)

// ConditionRemediationAllowed is True while nothing that holds for the whole
// NodeHealthCheck keeps an unhealthy Node from its first remediation.
const ConditionRemediationAllowed = "RemediationAllowed"

// ConditionStalled is True while nothing begins until you correct something, and absent otherwise, so
// that tools that know no other condition see it. The reason is that of the condition that says more.
const ConditionStalled = "Stalled"

// Reasons of the condition RemediationAllowed, which are a column of kubectl get. While it is False, the others are
// the [DecisionReason] that holds for all nodes.
const (
	// ReasonOpen is the reason while the condition is True.
	ReasonOpen = "Open"
	// ReasonClosed is the reason while too few nodes are healthy: the decisions are [DecidedGateClosed].
	ReasonClosed = "Closed"
	// ReasonStopped is the reason while only a RemediationBudget that stops everything is in the way: the decisions
	// are [DecidedBudgetExhausted].
	ReasonStopped = "Stopped"
	// ReasonNoNodes is the reason while the selector selects no Node: there is none that could
	// have a decision.
	ReasonNoNodes = "NoNodes"
	// MessageNoNodes goes with ReasonNoNodes.
	MessageNoNodes = "the selector selects no node"
)

// ConditionSelectorOverlap is True while another NodeHealthCheck selects some of
// the same Nodes.
const ConditionSelectorOverlap = "SelectorOverlap"

// Reasons of the condition SelectorOverlap.
const (
	// ReasonOverlap is the reason while the condition is True.
	ReasonOverlap = "NodesSelectedTwice"
	// ReasonNoOverlap is the reason while the condition is False.
	ReasonNoOverlap = "NoOverlap"
)

// ConditionLeftoverRemediations is True while a remediation object is still being deleted
// although its Node is gone (spec 17.4). It is absent otherwise.
const ConditionLeftoverRemediations = "LeftoverRemediations"

// ReasonAwaitingFinalizers is the reason of the condition LeftoverRemediations.
const ReasonAwaitingFinalizers = "AwaitingFinalizers"

// ConditionPlatformAccess is False while something of the platform cannot be read
// that a NodeHealthCheck can do without, and absent otherwise.
const ConditionPlatformAccess = "PlatformAccess"

// ReasonPlatformUnreadable is the reason of condition PlatformAccess if no missing
// permission is the cause.
const ReasonPlatformUnreadable = "PlatformUnreadable"

// Conditions of remediation objects that the controller reads.
const (
	// RemediationSucceeded tells the outcome of a remediation.
	RemediationSucceeded = "Succeeded"
	// RemediationPermanentNodeDeletionExpected True means that the remediator
	// deletes the Node for good and another one takes its place.
	RemediationPermanentNodeDeletionExpected = "PermanentNodeDeletionExpected"
	// RemediationFenceAgentActionSucceeded and RemediationFencingSucceeded True mean
	// that the Node is safely down.
	RemediationFenceAgentActionSucceeded = "FenceAgentActionSucceeded"
	RemediationFencingSucceeded          = "FencingSucceeded"
)
