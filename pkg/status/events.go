// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// notePrefix starts every note.
const notePrefix = "[remediation] "

// Reasons of events (spec 19.1).
const (
	ReasonEnabled            = "Enabled"
	ReasonDisabled           = "Disabled"
	ReasonDetectedUnhealthy  = "DetectedUnhealthy"
	ReasonRemediationCreated = "RemediationCreated"
	ReasonRemediationRemoved = "RemediationRemoved"
	ReasonRemediationSkipped = "RemediationSkipped"
	ReasonNoTemplateLeft     = "NoTemplateLeft"
	ReasonRemediationFailed  = "RemediationFailed"
	ReasonInvalidNodeLabel   = "InvalidNodeLabel"
	ReasonOldRemediationCR   = "OldRemediationCR"
	ReasonLeaseTakenOver     = "LeaseTakenOver"
	ReasonNoNodes            = v1alpha1.ReasonNoNodes
	ReasonStormStarted       = "StormRecoveryStarted"
	ReasonStormCooldown      = "StormRecoveryCooldownStarted"
	ReasonStormEnded         = "StormRecoveryEnded"
)

// Event is one event to record.
type Event struct {
	// Type is that of Kubernetes: Normal or Warning.
	Type, Reason string
	// Action says what was done, or has the reason of the decision why it was not. Clients of
	// the API server merge events that only differ in the note. The action keeps different
	// events apart.
	Action string
	// Note is the text without prefix and without a limit of its length. Text is recorded.
	Note string
	// Node is set for events about a node. They are recorded on the NodeHealthCheck,
	// related to the Node, and on the Node if it exists.
	Node *remediation.Node
}

// Text returns the note as it is recorded (spec 19.1).
func (e *Event) Text() string { return shorten(notePrefix + e.Note) }

// normal returns an event about the NodeHealthCheck, or about a node if there is one.
func normal(reason, action string, node *remediation.Node, format string, args ...any) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Node: node, Note: fmt.Sprintf(format, args...)}
}

// warning does the same for what a person may have to look at.
func warning(reason, action string, node *remediation.Node, format string, args ...any) Event {
	event := normal(reason, action, node, format, args...)
	event.Type = corev1.EventTypeWarning
	return event
}

// skipped is the event about a constraint of all nodes.
func skipped(decided v1alpha1.DecisionReason, format string, args ...any) Event {
	return warning(ReasonRemediationSkipped, string(decided), nil, format, args...)
}

func enabled() Event { return normal(ReasonEnabled, "Enable", nil, v1alpha1.MessageEnabled) }

func disabled(reason, message string) Event {
	if reason != v1alpha1.ReasonConflict {
		message = fmt.Sprintf("Disabling NHC. Reason: %s, Message: %s", reason, message)
	}
	return warning(ReasonDisabled, "Disable-"+reason, nil, "%s", message)
}

func detectedUnhealthy(node *remediation.Node) Event {
	return normal(ReasonDetectedUnhealthy, "Detect", node, "Node matches unhealthy condition. Node %q, condition type %q, condition status %q",
		node.Name, node.Verdict.Type, node.Verdict.Status)
}

func remediationCreated(node *remediation.Node, kind string) Event {
	return normal(ReasonRemediationCreated, "Create-"+kind, node, "Created remediation object for node %s", node.Name)
}

// leaseTakenOver reports that the lease of another holder was no longer valid (spec 14.4).
func leaseTakenOver(node *remediation.Node, note string) Event {
	return normal(ReasonLeaseTakenOver, "TakeLease", node, "%s", note)
}

// remediationRemoved reports a deletion request.
func remediationRemoved(node *remediation.Node, cr *object.CR) Event {
	return normal(ReasonRemediationRemoved, "Delete-"+distinctKind(node, cr), node, "Deleted remediation CR of kind %s with name %s", cr.Kind, cr.Name)
}

// notSelectedAnyMore reports that the selector has lost a node that is not healthy.
func notSelectedAnyMore(node *remediation.Node) Event {
	return warning(ReasonRemediationSkipped, string(v1alpha1.DecidedUnselected), node,
		"Node %s is not healthy, and the selector does not select it any more: nothing is done about it", node.Name)
}

func skippedForGate(gate health.Gate) Event {
	return warning(ReasonRemediationSkipped, fmt.Sprintf("%s-%d-of-%d", v1alpha1.DecidedGateClosed, gate.Healthy, gate.Required), nil,
		"Skipped remediation because the number of healthy nodes selected by the selector is %d and should equal or exceed %d", gate.Healthy, gate.Required)
}

func noNodes() Event { return warning(ReasonNoNodes, "CountNodes", nil, v1alpha1.MessageNoNodes) }

func skippedForSpec(problem string) Event {
	return skipped(v1alpha1.DecidedInvalidSpec, "%s", problem)
}

func skippedForPause() Event {
	return normal(ReasonRemediationSkipped, string(v1alpha1.DecidedPaused), nil, "Postponing potential remediations because of pause requests")
}

func skippedForUpgrade() Event {
	return normal(ReasonRemediationSkipped, string(v1alpha1.DecidedClusterUpgrading), nil, "Postponing potential remediations because of ongoing cluster upgrade")
}

func skippedForStorm() Event {
	return skipped(v1alpha1.DecidedStormActive, "Storm recovery active: skipping creation of new remediations")
}

func stormStarted() Event {
	return warning(ReasonStormStarted, "StartStorm", nil, "Storm recovery mode activated - delaying remediation until threshold is reached")
}

func stormCooldownStarted() Event {
	return warning(ReasonStormCooldown, "StartCooldown", nil, "Storm recovery mode will exit after cooldown delay")
}

func stormEnded() Event {
	return normal(ReasonStormEnded, "EndStorm", nil, "Storm recovery mode deactivated - normal remediation resumed")
}

// skippedForNode returns the event that says why one node gets no CR. The second result
// is false for reasons that are reported in another way, or not at all.
func skippedForNode(plan *remediation.NodePlan) (Event, bool) {
	node, reason := plan.Node, plan.Refusal()
	about := func(format string, args ...any) (Event, bool) {
		return warning(ReasonRemediationSkipped, string(reason), node, format, args...), true
	}
	switch reason {
	case v1alpha1.DecidedExcluded:
		return about("Remediation skipped on node %s: node has Exclude from Remediation label", node.Name)
	case v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum:
		return about("Skipping remediation of %s for preventing control plane / etcd quorum loss, going to retry in a minute", node.Name)
	case v1alpha1.DecidedLeaseTaken:
		return about("Skipped remediation of node: %s, because node lease is already taken", node.Name)
	case v1alpha1.DecidedVanished:
		return about("Remediation objects for node %s were deleted before it was healthy: the next one waits", node.Name)
	case v1alpha1.DecidedDryRun:
		cr := plan.WouldCreate
		return normal(ReasonRemediationSkipped, string(reason)+"-"+cr.GetKind(), node, "Dry run: would create %s %s for node %s", cr.GetKind(), cr.GetName(), node.Name), true
	default:
		return Event{}, false
	}
}

func noTemplateLeft(nhc string, node *remediation.Node) Event {
	return warning(ReasonNoTemplateLeft, string(v1alpha1.DecidedNoTemplateLeft), node,
		"Remediation timed out, and no template left to try. didn't find a template to use for NHC %s and node %s", nhc, node.Name)
}

// remediationFailed reports a failure that no step follows.
func remediationFailed(node *remediation.Node, cr *object.CR) Event {
	return warning(ReasonRemediationFailed, "Fail-"+distinctKind(node, cr), node, "%s", cr.Failure())
}

// oldRemediation reports an old CR.
func oldRemediation(node *remediation.Node, cr *object.CR) Event {
	return warning(ReasonOldRemediationCR, "Report-"+distinctKind(node, cr), node,
		"Remediation CR of kind %s with name %s for node %s is older than 48h", cr.Kind, cr.Name, cr.Node())
}

func invalidNodeLabel(node *remediation.Node) Event {
	return warning(ReasonInvalidNodeLabel, "IgnoreLabel", node,
		"Node %s has exclude-from-remediation label with empty value, label will be ignored. Set value to 'true' to exclude node from remediation", node.Name)
}

// maxTextLength is the number of bytes that the API accepts in the note of an event. The
// reason of a status and the messages of its conditions have the same limit, which keeps
// the object small, because they quote the spec.
const maxTextLength = 1024

// shorten returns no more of a text than maxTextLength, and does not cut a character.
func shorten(text string) string { return object.Truncate(text, maxTextLength) }

// distinctKind returns the kind of a CR. If a node may have several CRs of that kind, it adds the
// hash at the end of the name (spec 11.1).
func distinctKind(node *remediation.Node, cr *object.CR) string {
	if cr.Name == node.Name {
		return cr.Kind
	}
	const hash = len("-12345678")
	return cr.Kind + cr.Name[max(0, len(cr.Name)-hash):]
}
