// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Entry is what changed at an instant. An entry that names no node and has no gap says that nothing
// changed until then.
type Entry struct {
	At   time.Time
	Node string
	// Deleted means that the Node is gone.
	Deleted bool
	// Gap is the beginning of a time that was not recorded and ends at this instant, zero if there is
	// none.
	Gap time.Time
	// UID is empty, and Created zero, if they have not changed. Another UID means another Node of the
	// same name, without the state of the old one.
	UID     types.UID
	Created time.Time
	// Labels and Annotations are nil if they have not changed.
	Labels, Annotations map[string]string
	// Conditions are those that have changed.
	Conditions []Condition
}

// Condition is a condition of a Node. Without a status, the Node does not have it any more.
type Condition struct {
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
	Since  time.Time
}

// Apply returns the Node after an entry about it, nil if it is gone. The Node before, nil if there was
// none, is not changed.
func Apply(before *corev1.Node, entry *Entry) *corev1.Node {
	if entry.Deleted {
		return nil
	}
	node := &corev1.Node{}
	if before != nil && (entry.UID == "" || entry.UID == before.UID) {
		*node = *before
	}
	node.Name = entry.Node
	if entry.UID != "" {
		node.UID = entry.UID
	}
	if !entry.Created.IsZero() {
		node.CreationTimestamp = metav1.NewTime(entry.Created)
	}
	if entry.Labels != nil {
		node.Labels = entry.Labels
	}
	if entry.Annotations != nil {
		node.Annotations = entry.Annotations
	}
	if len(entry.Conditions) > 0 {
		node.Status.Conditions = applied(node.Status.Conditions, entry.Conditions)
	}
	return node
}

// applied returns conditions after some of them have changed.
func applied(before []corev1.NodeCondition, changes []Condition) []corev1.NodeCondition {
	after := slices.Clone(before)
	for _, change := range changes {
		i := slices.IndexFunc(after, func(known corev1.NodeCondition) bool { return known.Type == change.Type })
		fresh := corev1.NodeCondition{Type: change.Type, Status: change.Status, LastTransitionTime: metav1.NewTime(change.Since)}
		switch {
		case i < 0 && change.Status != "":
			after = append(after, fresh)
		case i >= 0 && change.Status != "":
			after[i] = fresh
		case i >= 0:
			after = slices.Delete(after, i, i+1)
		}
	}
	return after
}

// reduced returns the parts of a Node that a recording keeps.
func reduced(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, CreationTimestamp: node.CreationTimestamp, Labels: node.Labels}}
	if value, set := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]; set { // Decisions read no other.
		kept.Annotations = map[string]string{v1alpha1.AnnotationManuallyConfirmedHealthy: value}
	}
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime})
	}
	return kept
}

// difference returns the entry for the change from one reduced Node to the next, and whether there is a
// change. before is nil for a new Node.
func difference(before, after *corev1.Node) (entry Entry, differs bool) {
	entry = Entry{Node: after.Name}
	if before == nil || before.UID != after.UID {
		entry.UID, entry.Created, differs = after.UID, after.CreationTimestamp.Time, true
		before = &corev1.Node{}
	}
	if !maps.Equal(before.Labels, after.Labels) {
		entry.Labels = orEmpty(after.Labels)
	}
	if !maps.Equal(before.Annotations, after.Annotations) {
		entry.Annotations = orEmpty(after.Annotations)
	}
	entry.Conditions = changedConditions(before.Status.Conditions, after.Status.Conditions)
	return entry, differs || entry.Labels != nil || entry.Annotations != nil || len(entry.Conditions) > 0
}

// orEmpty returns a map that is not nil.
func orEmpty(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return values
}

// changedConditions returns the conditions that have changed, by type.
func changedConditions(before, after []corev1.NodeCondition) (changes []Condition) {
	find := func(conditions []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
		i := slices.IndexFunc(conditions, func(condition corev1.NodeCondition) bool { return condition.Type == kind })
		if i < 0 {
			return nil
		}
		return &conditions[i]
	}
	for i := range after {
		fresh := &after[i]
		if known := find(before, fresh.Type); known == nil || known.Status != fresh.Status || !known.LastTransitionTime.Equal(&fresh.LastTransitionTime) {
			changes = append(changes, Condition{Type: fresh.Type, Status: fresh.Status, Since: fresh.LastTransitionTime.Time})
		}
	}
	for i := range before {
		if find(after, before[i].Type) == nil {
			changes = append(changes, Condition{Type: before[i].Type})
		}
	}
	slices.SortStableFunc(changes, func(a, b Condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return changes
}
