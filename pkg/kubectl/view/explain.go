// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Details are facts about one node besides a Snapshot. Missing names the facts that cannot be read.
type Details struct {
	// Remediations are what is known of the remediation objects that status names, by their uid.
	Remediations map[types.UID]Remediation
	// Lease is that of the node, nil if there is none.
	Lease  *coordinationv1.Lease
	Events []corev1.Event
	// GoneMachines are the Machines that the Node names and that do not exist.
	GoneMachines []string
}

// Explanation has everything that is known about one node.
type Explanation struct {
	// Time is the instant at which it holds.
	Time metav1.Time `json:"time"`
	Node string      `json:"node"`
	// Deleted means that there is no Node object, and Unreadable that it is not known.
	Deleted      bool `json:"deleted,omitempty"`
	Unreadable   bool `json:"unreadable,omitempty"`
	ControlPlane bool `json:"controlPlane,omitempty"`
	Held         bool `json:"held,omitempty"`
	// PauseReason is why it is held, as far as it is known.
	PauseReason string `json:"pauseReason,omitempty"`
	// Stopped says by which RemediationBudget everything is stopped, empty if nothing is.
	Stopped string `json:"stopped,omitempty"`
	// Notes are warnings about the Node, with advice.
	Notes      []string    `json:"notes,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	// Leader is absent if it cannot be read.
	Leader *Leader `json:"leader,omitempty"`
	// Checks are the NodeHealthChecks that select the node, or still list it.
	Checks []CheckOfNode `json:"nodeHealthChecks"`
	// Others are those that do not, with the reason.
	Others []NotSelected `json:"notSelectedBy,omitempty"`
	// Lease and Events are as the API server has them, the newest event last.
	Lease  *coordinationv1.Lease `json:"lease,omitempty"`
	Events []corev1.Event        `json:"events,omitempty"`
	// Missing is not empty if the explanation is partial.
	Missing []Missing `json:"missing,omitempty"`
}

// Condition is a condition of a Node or of a remediation object.
type Condition struct {
	Type   string       `json:"type"`
	Status string       `json:"status"`
	Since  *metav1.Time `json:"since,omitempty"`
	// Doubt is why Since is not the lastTransitionTime of the condition, empty if it is.
	Doubt   string `json:"doubt,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// CheckOfNode is the node from the view of one NodeHealthCheck.
type CheckOfNode struct {
	Name string `json:"name"`
	// Selected is false for a node that is still under remediation.
	Selected bool `json:"selected"`
	// State is Healthy, SoonUnhealthy or Unhealthy, by the conditions of the Node now, and by what the
	// controller has written of a node that it lists. It is empty without a Node.
	State string `json:"state,omitempty"`
	// NeverReported means that it is SoonUnhealthy because it has no condition Ready.
	NeverReported bool `json:"neverReported,omitempty"`
	// Unhealthy is when the node becomes, or became, unhealthy.
	Unhealthy *metav1.Time `json:"unhealthy,omitempty"`
	// Trigger is the condition by which it is, or becomes so.
	Trigger string `json:"trigger,omitempty"`
	// Rules are the unhealthyConditions of the spec.
	Rules []v1alpha1.UnhealthyCondition `json:"rules"`
	// Decision is what the controller has decided last, absent for a node that it does not list.
	Decision *v1alpha1.Decision `json:"decision,omitempty"`
	// Notes are what holds for the whole NodeHealthCheck, as why nothing begins.
	Notes []string `json:"notes,omitempty"`
	Steps []Step   `json:"steps,omitempty"`
	// Gate is absent as long as the controller has counted no nodes, and NotHealthy are the nodes that count against it.
	Gate         *Gate         `json:"gate,omitempty"`
	NotHealthy   []string      `json:"notHealthy,omitempty"`
	HealthySince *metav1.Time  `json:"healthySince,omitempty"`
	Remediations []Remediation `json:"remediations,omitempty"`
}

// Step is one step of a NodeHealthCheck.
type Step struct {
	Kind     string `json:"kind"`
	Template string `json:"template"`
	// Timeout is absent in classic mode.
	Timeout string `json:"timeout,omitempty"`
}

// Remediation is one remediation object of the node.
type Remediation struct {
	v1alpha1.Remediation `json:",inline"`
	// Known is false if the object cannot be read, or is gone.
	Known      bool        `json:"known"`
	Deleting   bool        `json:"deleting,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// NotSelected is a NodeHealthCheck that does not select the node.
type NotSelected struct {
	Name string `json:"name"`
	// Because is the part of the selector that the node does not meet.
	Because string `json:"because"`
}

// NewExplanation explains a node. It is nil if there is no such node, and no health check knows it.
func NewExplanation(name string, snapshot *Snapshot, details *Details, now time.Time) *Explanation {
	e := &Explanation{Time: metav1.NewTime(now), Node: name, Leader: snapshot.Leader, Stopped: Stop(snapshot.Budgets), Checks: []CheckOfNode{}, Missing: snapshot.Missing}
	node := findNode(snapshot, name)
	e.Unreadable = node == nil && snapshot.misses("nodes")
	e.Deleted = node == nil && !e.Unreadable
	var known health.Evidence
	if node != nil {
		known = health.EvidenceOf(node, nil)
		e.describe(node, known)
		e.Notes = notes(node, snapshot, details, now)
	}
	selected := !e.Deleted
	for _, nhc := range snapshot.NodeHealthChecks {
		entry := EntryOf(nhc, name)
		selected = selected || entry != nil
		because := unmet(nhc, node)
		if because != "" && entry == nil && node == nil {
			continue
		}
		if because != "" && entry == nil {
			e.Others = append(e.Others, NotSelected{Name: nhc.Name, Because: because})
			continue
		}
		e.Checks = append(e.Checks, explainCheck(nhc, node, entry, because == "" || e.Unreadable, snapshot, details, known, now))
	}
	if !selected {
		return nil
	}
	e.Lease, e.Events = details.Lease, slices.Clone(details.Events)
	slices.SortStableFunc(e.Events, func(a, b corev1.Event) int {
		lastOfA, _ := lastSeen(&a)
		lastOfB, _ := lastSeen(&b)
		return lastOfA.Compare(lastOfB)
	})
	return e
}

func findNode(snapshot *Snapshot, name string) *corev1.Node {
	for _, node := range snapshot.Nodes {
		if node.Name == name {
			return node
		}
	}
	return nil
}

// EntryOf returns what a NodeHealthCheck reports of a node, nil if it does not list it.
func EntryOf(nhc *v1alpha1.NodeHealthCheck, name string) *v1alpha1.UnhealthyNode {
	i := slices.IndexFunc(nhc.Status.UnhealthyNodes, func(node v1alpha1.UnhealthyNode) bool { return node.Name == name })
	if i < 0 {
		return nil
	}
	return &nhc.Status.UnhealthyNodes[i]
}

func (e *Explanation) describe(node *corev1.Node, evidence health.Evidence) {
	e.ControlPlane, e.Held = remediation.IsControlPlane(node.Labels), node.Labels[v1alpha1.LabelExclude] == "true"
	e.PauseReason = node.Annotations[v1alpha1.AnnotationPauseReason]
	for _, condition := range node.Status.Conditions {
		since, doubt := evidence.Since(&condition, e.Time.Time)
		e.Conditions = append(e.Conditions, Condition{
			Type: string(condition.Type), Status: string(condition.Status), Since: instant(since), Doubt: doubt, Reason: condition.Reason, Message: condition.Message,
		})
	}
}

// unmet returns the part of the selector that a node does not meet, empty if it is selected.
func unmet(nhc *v1alpha1.NodeHealthCheck, node *corev1.Node) string {
	if node == nil {
		return "there is no Node"
	}
	selector, err := metav1.LabelSelectorAsSelector(&nhc.Spec.Selector)
	if err != nil {
		return "the selector is invalid: " + err.Error()
	}
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		if requirement.Matches(labels.Set(node.Labels)) {
			continue
		}
		has := "the node does not have the label"
		if value, labelled := node.Labels[requirement.Key()]; labelled {
			has = fmt.Sprintf("the node has %q", value)
		}
		return fmt.Sprintf("%s, and %s", requirement.String(), has)
	}
	return ""
}

func explainCheck(nhc *v1alpha1.NodeHealthCheck, node *corev1.Node, entry *v1alpha1.UnhealthyNode, selected bool, snapshot *Snapshot, details *Details, evidence health.Evidence, now time.Time) CheckOfNode {
	check := CheckOfNode{Name: nhc.Name, Selected: selected, Rules: nhc.Spec.UnhealthyConditions}
	var verdict health.Verdict
	if node != nil {
		if len(snapshot.MachineHealthChecks) == 0 || !remediation.Terminating(node.Status.Conditions) { // Spec 7.7.
			verdict = health.JudgeNode(nhc.Spec.UnhealthyConditions, evidence, now)
		}
		check.State, check.Unhealthy, check.NeverReported = verdict.State.String(), instant(verdict.Deadline), verdict.NeverReported()
		check.Trigger = triggerText(&v1alpha1.Trigger{Type: verdict.Type, Status: verdict.Status})
	}
	state := newCheck(nhc, snapshot, now)
	check.Steps, check.Gate, check.NotHealthy = steps(nhc), state.Gate, state.NotHealthy()
	for _, note := range Notes(&state, false, now) {
		check.Notes = append(check.Notes, note.Text)
	}
	if entry != nil {
		check.Decision, check.HealthySince = entry.Decision, entry.ConditionsHealthyTimestamp
		switch {
		case node == nil || entry.ConditionsHealthyTimestamp != nil || verdict.State == health.Healthy:
		case soon(entry):
			check.State, check.Unhealthy = health.SoonUnhealthy.String(), entry.Decision.NextCheckTime
		case entry.Trigger != nil && verdict.State == health.SoonUnhealthy:
			check.State, check.Unhealthy, check.Trigger = health.Unhealthy.String(), entry.Detected, triggerText(entry.Trigger)
		}
		for _, listed := range entry.Remediations {
			shown := details.Remediations[listed.Resource.UID]
			shown.Remediation = listed
			check.Remediations = append(check.Remediations, shown)
		}
	}
	return check
}

// steps returns the steps of a NodeHealthCheck, in their order.
func steps(nhc *v1alpha1.NodeHealthCheck) (shown []Step) {
	for _, step := range remediation.Steps(&nhc.Spec) {
		next := Step{Kind: step.Reference.Kind, Template: step.Reference.Namespace + "/" + step.Reference.Name}
		if step.Escalating() {
			next.Timeout = step.Timeout.String()
		}
		shown = append(shown, next)
	}
	return shown
}

// lastSeen returns when an event was seen last, and how often it was.
func lastSeen(event *corev1.Event) (last time.Time, count int32) {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time, event.Series.Count
	case event.LastTimestamp.IsZero():
		return event.EventTime.Time, event.Count
	default:
		return event.LastTimestamp.Time, event.Count
	}
}

// NodeNames returns the names of all nodes of a snapshot.
func NodeNames(snapshot *Snapshot) []string {
	names := make([]string, 0, len(snapshot.Nodes))
	for _, node := range snapshot.Nodes {
		names = append(names, node.Name)
	}
	return names
}
