// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// ReportingController is the name under which events are reported (spec 19.1).
const ReportingController = "NodeHealthCheck"

// notePrefix starts every note.
const notePrefix = "[remediation] "

// Reasons of events (spec 19.1).
const (
	reasonEnabled            = "Enabled"
	reasonDisabled           = "Disabled"
	reasonDetectedUnhealthy  = "DetectedUnhealthy"
	reasonRemediationCreated = "RemediationCreated"
	reasonRemediationRemoved = "RemediationRemoved"
	reasonRemediationSkipped = "RemediationSkipped"
	reasonNoTemplateLeft     = "NoTemplateLeft"
	reasonRemediationFailed  = "RemediationFailed"
	reasonInvalidNodeLabel   = "InvalidNodeLabel"
	reasonOldRemediationCR   = "OldRemediationCR"
	reasonStormStarted       = "StormRecoveryStarted"
	reasonStormCooldown      = "StormRecoveryCooldownStarted"
	reasonStormEnded         = "StormRecoveryEnded"
)

// event is one event to record.
type event struct {
	eventType, reason string
	// action says what was done, or as the reason of the decision, why it was not. The
	// API server's clients take events that differ in nothing but the note for one, so
	// the action tells apart what must not be taken for the same.
	action string
	note   string
	// node is set for events about a node. They are recorded on the NodeHealthCheck
	// and on the Node.
	node *corev1.Node
}

func enabled() event {
	return event{eventType: corev1.EventTypeNormal, reason: reasonEnabled, action: "Enable", note: v1alpha1.MessageEnabled}
}

func disabled(reason, message string) event {
	note := message
	if reason != v1alpha1.ReasonConflict {
		note = fmt.Sprintf("Disabling NHC. Reason: %s, Message: %s", reason, message)
	}
	return event{eventType: corev1.EventTypeWarning, reason: reasonDisabled, action: "Disable-" + reason, note: note}
}

func detectedUnhealthy(node *corev1.Node, verdict health.Verdict) event {
	return event{
		eventType: corev1.EventTypeNormal, reason: reasonDetectedUnhealthy, action: "Detect", node: node,
		note: fmt.Sprintf("Node matches unhealthy condition. Node %q, condition type %q, condition status %q", node.Name, verdict.Type, verdict.Status),
	}
}

func remediationCreated(node *corev1.Node, kind string) event {
	return event{
		eventType: corev1.EventTypeNormal, reason: reasonRemediationCreated, action: "Create-" + kind, node: node,
		note: "Created remediation object for node " + node.Name,
	}
}

// remediationRemoved tells of a deletion request. node is nil if it is gone.
func remediationRemoved(node *corev1.Node, cr *object.CR) event {
	return event{
		eventType: corev1.EventTypeNormal, reason: reasonRemediationRemoved, action: "Delete-" + cr.Kind, node: node,
		note: fmt.Sprintf("Deleted remediation CR of kind %s with name %s", cr.Kind, cr.Name),
	}
}

func skippedForGate(gate health.Gate) event {
	return event{
		eventType: corev1.EventTypeWarning, reason: reasonRemediationSkipped, action: fmt.Sprintf("%s-%d-of-%d", v1alpha1.DecidedGateClosed, gate.Healthy, gate.Required),
		note: fmt.Sprintf("Skipped remediation because the number of healthy nodes selected by the selector is %d and should equal or exceed %d", gate.Healthy, gate.Required),
	}
}

func skippedForSpec(problem string) event {
	return event{eventType: corev1.EventTypeWarning, reason: reasonRemediationSkipped, action: string(v1alpha1.DecidedInvalidSpec), note: problem}
}

func skippedForPause() event {
	return event{
		eventType: corev1.EventTypeNormal, reason: reasonRemediationSkipped, action: string(v1alpha1.DecidedPaused),
		note: "Postponing potential remediations because of pause requests",
	}
}

func skippedForUpgrade() event {
	return event{
		eventType: corev1.EventTypeNormal, reason: reasonRemediationSkipped, action: string(v1alpha1.DecidedClusterUpgrading),
		note: "Postponing potential remediations because of ongoing cluster upgrade",
	}
}

func skippedForStorm() event {
	return event{
		eventType: corev1.EventTypeWarning, reason: reasonRemediationSkipped, action: string(v1alpha1.DecidedStormActive),
		note: "Storm recovery active: skipping creation of new remediations",
	}
}

func stormStarted() event {
	return event{
		eventType: corev1.EventTypeWarning, reason: reasonStormStarted, action: "StartStorm",
		note: "Storm recovery mode activated - delaying remediation until threshold is reached",
	}
}

func stormCooldownStarted() event {
	return event{
		eventType: corev1.EventTypeWarning, reason: reasonStormCooldown, action: "StartCooldown",
		note: "Storm recovery mode will exit after cooldown delay",
	}
}

func stormEnded() event {
	return event{
		eventType: corev1.EventTypeNormal, reason: reasonStormEnded, action: "EndStorm",
		note: "Storm recovery mode deactivated - normal remediation resumed",
	}
}

// skippedForNode returns why one node gets no CR. The second result is false for
// reasons that are reported in another way, or not at all.
func skippedForNode(node *corev1.Node, reason v1alpha1.DecisionReason) (event, bool) {
	var note string
	switch reason {
	case v1alpha1.DecidedExcluded:
		note = fmt.Sprintf("Remediation skipped on node %s: node has Exclude from Remediation label", node.Name)
	case v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum:
		note = fmt.Sprintf("Skipping remediation of %s for preventing control plane / etcd quorum loss, going to retry in a minute", node.Name)
	case v1alpha1.DecidedLeaseTaken:
		note = fmt.Sprintf("Skipped remediation of node: %s, because node lease is already taken", node.Name)
	default:
		return event{}, false
	}
	return event{eventType: corev1.EventTypeWarning, reason: reasonRemediationSkipped, action: string(reason), node: node, note: note}, true
}

func noTemplateLeft(nhc string, node *corev1.Node) event {
	return event{
		eventType: corev1.EventTypeWarning, reason: reasonNoTemplateLeft, action: string(v1alpha1.DecidedNoTemplateLeft), node: node,
		note: fmt.Sprintf("Remediation timed out, and no template left to try. didn't find a template to use for NHC %s and node %s", nhc, node.Name),
	}
}

// remediationFailed tells of a failure that no step follows.
func remediationFailed(node *corev1.Node, cr *object.CR) event {
	return event{
		eventType: corev1.EventTypeWarning, reason: reasonRemediationFailed, action: "Fail-" + cr.Kind, node: node,
		note: cr.Failure(),
	}
}

// oldRemediation tells of an old CR. node is nil if it is gone.
func oldRemediation(node *corev1.Node, cr *object.CR) event {
	return event{
		eventType: corev1.EventTypeWarning, reason: reasonOldRemediationCR, action: "Report-" + cr.Kind, node: node,
		note: fmt.Sprintf("Remediation CR of kind %s with name %s for node %s is older than 48h", cr.Kind, cr.Name, cr.Node()),
	}
}

func invalidNodeLabel(node *corev1.Node) event {
	return event{
		eventType: corev1.EventTypeWarning, reason: reasonInvalidNodeLabel, action: "IgnoreLabel", node: node,
		note: fmt.Sprintf("Node %s has exclude-from-remediation label with empty value, label will be ignored. Set value to 'true' to exclude node from remediation", node.Name),
	}
}

// eventReporter records events.
type eventReporter struct {
	recorder events.EventRecorder
}

// maxTextLength is the number of bytes that the API accepts in the note of an event. The
// reason of a status and the messages of its conditions have the same bound, which keeps
// the object small: they quote what a spec says.
const maxTextLength = 1024

// record records events of a NodeHealthCheck, those about a node on both. The
// references carry no resourceVersion: with one, repetitions would not be seen as
// such.
func (r eventReporter) record(nhc *v1alpha1.NodeHealthCheck, all []event) {
	onNHC := &corev1.ObjectReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: nhc.Name, UID: nhc.UID}
	for _, e := range all {
		note := shorten(notePrefix + e.note)
		if e.node == nil {
			r.recorder.Eventf(onNHC, nil, e.eventType, e.reason, e.action, "%s", note)
			continue
		}
		onNode := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.node.Name, UID: e.node.UID}
		r.recorder.Eventf(onNHC, onNode, e.eventType, e.reason, e.action, "%s", note)
		r.recorder.Eventf(onNode, onNHC, e.eventType, e.reason, e.action, "%s", note)
	}
}

// shorten returns no more of a text than maxTextLength, and does not cut a character.
func shorten(text string) string {
	if len(text) <= maxTextLength {
		return text
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(text[:maxTextLength-len(ellipsis)], "") + ellipsis
}
