// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// fail makes a node Ready=Unknown, as one whose kubelet does not answer any more.
func (w *world) fail(name string, now time.Time) {
	node := w.nodes[name].DeepCopy()
	if node == nil {
		return
	}
	failed := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	conditions := &node.Status.Conditions
	i := slices.IndexFunc(*conditions, func(condition corev1.NodeCondition) bool { return condition.Type == corev1.NodeReady })
	switch {
	case i < 0:
		*conditions = append(*conditions, failed)
	case (*conditions)[i].Status == failed.Status:
		return
	default:
		(*conditions)[i] = failed
	}
	w.replace(node)
	w.journal.add(Line{Nodes: []string{name}, What: Fails, Why: "Ready=Unknown"}, now)
}

// recover makes a node healthy: each condition that matches a rule gets another status.
func (w *world) recover(name, why string, now time.Time) {
	node := w.nodes[name]
	if node == nil || !w.unhealthy(node) {
		return
	}
	node = node.DeepCopy()
	var left []corev1.NodeCondition
	for _, condition := range node.Status.Conditions {
		if !w.matches(condition) && (condition.Type != corev1.NodeReady || condition.Status == corev1.ConditionTrue) {
			left = append(left, condition)
			continue
		}
		if status := w.harmless(condition.Type); status != "" {
			condition.Status, condition.Reason, condition.LastTransitionTime = status, "Simulated", metav1.NewTime(now.Truncate(time.Second))
			left = append(left, condition)
		}
	}
	node.Status.Conditions = left
	w.replace(node)
	w.journal.add(Line{Nodes: []string{name}, What: Recovers, Why: why}, now)
}

// unhealthy reports whether a node is not ready, or has a condition that a check is about.
func (w *world) unhealthy(node *corev1.Node) bool {
	return !remediation.Ready(node) || slices.ContainsFunc(node.Status.Conditions, w.matches)
}

// matches reports whether a rule of a check matches a condition.
func (w *world) matches(condition corev1.NodeCondition) bool {
	conditions := []corev1.NodeCondition{condition}
	return slices.ContainsFunc(w.checks, func(c *check) bool { return health.Matches(c.nhc.Spec.UnhealthyConditions, conditions) })
}

// harmless returns a status of a condition that no rule matches, and nothing if there is none.
func (w *world) harmless(kind corev1.NodeConditionType) corev1.ConditionStatus {
	statuses := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
	if kind == corev1.NodeReady {
		statuses = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}
	}
	for _, status := range statuses {
		if !w.matches(corev1.NodeCondition{Type: kind, Status: status}) {
			return status
		}
	}
	return ""
}

// selectedBy returns the names of the checks that select a node.
func selectedBy(checks []*check, node *corev1.Node) (names []string) {
	for _, c := range checks {
		if c.selects(node) {
			names = append(names, c.nhc.Name)
		}
	}
	return names
}

// looksAtUnknown reports whether a NodeHealthCheck takes a node for unhealthy that is Ready=Unknown.
func looksAtUnknown(nhc *v1alpha1.NodeHealthCheck) bool {
	return health.Matches(nhc.Spec.UnhealthyConditions, []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}})
}
