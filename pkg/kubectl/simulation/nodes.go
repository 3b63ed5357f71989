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
	w.set(name, node)
	w.journal.add(Line{Nodes: []string{name}, What: Fails, Why: "Ready=Unknown"}, now)
}

// recover makes a node healthy: it gets Ready=True, and has no other condition that matches a rule.
func (w *world) recover(name, why string, now time.Time) {
	node := w.nodes[name]
	if w.harm(node) == "" {
		return
	}
	node = node.DeepCopy()
	node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type != corev1.NodeReady && w.matches(condition)
	})
	for i := range node.Status.Conditions {
		if ready := &node.Status.Conditions[i]; ready.Type == corev1.NodeReady && ready.Status != corev1.ConditionTrue {
			ready.Status, ready.Reason, ready.LastTransitionTime = corev1.ConditionTrue, "Simulated", metav1.NewTime(now.Truncate(time.Second))
		}
	}
	w.set(name, node)
	w.journal.add(Line{Nodes: []string{name}, What: Recovers, Why: why}, now)
}

// matches reports whether a rule of a check matches a condition.
func (w *world) matches(condition corev1.NodeCondition) bool {
	conditions := []corev1.NodeCondition{condition}
	return slices.ContainsFunc(w.checks, func(c *check) bool { return health.Matches(c.nhc.Spec.UnhealthyConditions, conditions) })
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
