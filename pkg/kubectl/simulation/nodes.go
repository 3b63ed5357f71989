// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// fail makes a node Ready=Unknown, as one whose kubelet does not answer any more.
func (w *world) fail(name string, now time.Time) {
	node := w.nodes[name]
	if node == nil || slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown
	}) {
		return
	}
	w.set(name, withReady(node, corev1.ConditionUnknown, now))
	w.journal.add(Line{Nodes: []string{name}, What: Fails, Why: "Ready=Unknown"}, now)
}

// withReady returns a copy of a node that has been ready, or not, since now.
func withReady(node *corev1.Node, status corev1.ConditionStatus, now time.Time) *corev1.Node {
	changed := node.DeepCopy()
	changed.Status.Conditions = append(
		slices.DeleteFunc(changed.Status.Conditions, func(condition corev1.NodeCondition) bool { return condition.Type == corev1.NodeReady }),
		corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))},
	)
	return changed
}

// recover makes a node healthy: it gets Ready=True, and has no other condition that matches a rule.
func (w *world) recover(name, why string, now time.Time) {
	node := w.nodes[name]
	if w.harm(node) == "" {
		return
	}
	if !remediation.Ready(node) {
		node = withReady(node, corev1.ConditionTrue, now)
	}
	node = node.DeepCopy()
	node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type != corev1.NodeReady && w.matches(condition)
	})
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
