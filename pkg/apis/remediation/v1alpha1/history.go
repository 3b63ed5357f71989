// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Episode describes one Node from the moment it became unhealthy until it was
// healthy and had no remediation object left, even if the Node was deleted and
// registered again in between. It is open as long as it has no outcome. All times are
// in whole seconds.
type Episode struct {
	// node is the name of the Node.
	// +required
	Node string `json:"node"`
	// trigger is the condition that made the Node unhealthy. It is absent if the
	// episode began before the controller could tell.
	// +optional
	Trigger *Trigger `json:"trigger,omitempty"`
	// detected is when that condition took its status, which is earlier than the
	// moment when it had lasted for its duration. It is not before the creation of
	// the Node.
	// +required
	Detected metav1.Time `json:"detected"`
	// started is when the first remediation object was created.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`
	// fenced is the first sign that the Node was down for certain: a remediator
	// reported so, or the Node was gone after the start. It is absent without such
	// a sign.
	// +optional
	Fenced *metav1.Time `json:"fenced,omitempty"`
	// finished is when the Node was first seen healthy again, or how else the outcome
	// came about. It goes again if the Node does not stay healthy until its last
	// remediation object is gone.
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`
	// released is when the last remediation object was gone: healthyDelay and
	// finalizers lie between finished and released. It is absent while the episode is
	// open, and if the Node had no remediation object.
	// +optional
	Released *metav1.Time `json:"released,omitempty"`
	// outcome is how the episode ended. It is absent while the episode is open.
	// +optional
	Outcome EpisodeOutcome `json:"outcome,omitempty"`
	// steps are the remediation objects of the Node, in the order of their start.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Steps []EpisodeStep `json:"steps,omitempty"`
}

// EpisodeStep is one remediation object in an episode.
type EpisodeStep struct {
	// kind of the remediation object.
	// +required
	Kind string `json:"kind"`
	// templateName is the name of the template it was created from.
	// +optional
	TemplateName string `json:"templateName,omitempty"`
	// started is when it was created.
	// +required
	Started metav1.Time `json:"started"`
	// ended is when it no longer stood for its step. It is absent while it does.
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`
	// result is how it ended. It is absent while the step is running.
	// +optional
	Result StepResult `json:"result,omitempty"`
}

// EpisodeOutcome is how an episode ended. The schema accepts any, so that a newer
// controller can write status through an older CRD.
type EpisodeOutcome string

const (
	// OutcomeRecovered means that the Node was healthy after a remediation.
	OutcomeRecovered EpisodeOutcome = "Recovered"
	// OutcomeRecoveredWithoutRemediation means that the Node was healthy before
	// anything was done.
	OutcomeRecoveredWithoutRemediation EpisodeOutcome = "RecoveredWithoutRemediation"
	// OutcomeDryRun means that the Node was healthy before anything was done. Without the
	// mode DryRun a remediation would have begun at the time started.
	OutcomeDryRun EpisodeOutcome = "DryRun"
	// OutcomeNodeDeleted means that the Node was deleted and, if it was under
	// remediation then, that no healthy Node of its name followed within an hour.
	OutcomeNodeDeleted EpisodeOutcome = "NodeDeleted"
	// OutcomeReplaced means that the Node was deleted for good, as its remediator had
	// announced, and that the remediator reported success.
	OutcomeReplaced EpisodeOutcome = "Replaced"
	// OutcomeCancelled means any other end: the Node is no longer selected, for
	// example.
	OutcomeCancelled EpisodeOutcome = "Cancelled"
)

// StepResult is how a step ended. The schema accepts any value, as for an outcome.
type StepResult string

const (
	// StepRecovered means that the Node was healthy and the object was deleted, even if
	// the Node was unhealthy again by the time it was gone.
	StepRecovered StepResult = "Recovered"
	// StepTimedOut means that its time was up.
	StepTimedOut StepResult = "TimedOut"
	// StepFailed means that its remediator reported a failure.
	StepFailed StepResult = "Failed"
	// StepNodeDeleted means that the Node was deleted.
	StepNodeDeleted StepResult = "NodeDeleted"
	// StepVanished means that it was deleted by another than the controller while the
	// Node was not healthy.
	StepVanished StepResult = "Vanished"
)

// DefaultRemediationHistoryLimit is the limit where the spec has none.
const DefaultRemediationHistoryLimit = 20
