// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// CR is what the controller reads of a remediation object. It is immutable: it
// lives in caches and is shared.
type CR struct {
	metav1.TypeMeta
	// ObjectMeta is cut down to what identifies the object, its owners, times,
	// and the annotations and labels of the controller.
	metav1.ObjectMeta
	// Succeeded and PermanentNodeDeletionExpected are the statuses of these
	// conditions, empty where the object does not have them (spec 11.7).
	Succeeded, PermanentNodeDeletionExpected corev1.ConditionStatus
	// FailureReason, FailureMessage and FailedSince are those of the condition Succeeded
	// while it is False. The texts are cut to the room of a decision. FailedSince is zero if
	// the condition gives no time.
	FailureReason, FailureMessage string
	FailedSince                   time.Time
	// Fenced means that a condition says that the node is safely down.
	Fenced bool
	// FencedSince is since when the first of these conditions says so. It is zero if none of
	// them gives a plausible time.
	FencedSince time.Time
}

var _ runtime.Object = &CR{}

// ParseCR reads a remediation object. It accepts a status of any shape: fields that
// cannot be understood are not set.
func ParseCR(object *unstructured.Unstructured) *CR {
	cr := &CR{
		TypeMeta: metav1.TypeMeta{APIVersion: object.GetAPIVersion(), Kind: object.GetKind()},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         object.GetNamespace(),
			Name:              object.GetName(),
			UID:               object.GetUID(),
			ResourceVersion:   object.GetResourceVersion(),
			CreationTimestamp: object.GetCreationTimestamp(),
			DeletionTimestamp: object.GetDeletionTimestamp(),
			OwnerReferences:   object.GetOwnerReferences(),
			Annotations: pick(object.GetAnnotations(), v1alpha1.AnnotationNodeName, v1alpha1.AnnotationTemplateName, v1alpha1.AnnotationTimedOut,
				v1beta1.MachineAPIOpenShift+clonedFromName, v1beta1.MachineAPICluster+clonedFromName),
			Labels: pick(object.GetLabels(), v1alpha1.LabelControlPlane),
		},
	}
	conditions, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, item := range list {
		condition, _ := item.(map[string]any)
		status, _ := condition["status"].(string)
		switch condition["type"] {
		case v1alpha1.RemediationSucceeded:
			cr.Succeeded = corev1.ConditionStatus(status)
			cr.addFailure(condition)
		case v1alpha1.RemediationPermanentNodeDeletionExpected:
			cr.PermanentNodeDeletionExpected = corev1.ConditionStatus(status)
		}
		cr.addFencing(condition)
	}
	return cr
}

// The number of bytes that are kept of the reason and of the message of a failure. The
// caches hold the CRs of thousands of nodes.
const maxFailureReason, maxFailureMessage = 128, 256

// addFailure keeps why the remediation has failed, if it has.
func (c *CR) addFailure(condition map[string]any) {
	c.FailureReason, c.FailureMessage, c.FailedSince = "", "", time.Time{}
	if c.Succeeded != corev1.ConditionFalse {
		return
	}
	reason, _ := condition["reason"].(string)
	message, _ := condition["message"].(string)
	since, _ := condition["lastTransitionTime"].(string)
	c.FailureReason, c.FailureMessage = strings.Clone(Truncate(reason, maxFailureReason)), strings.Clone(Truncate(message, maxFailureMessage))
	c.FailedSince, _ = time.Parse(time.RFC3339, since)
}

// Failure says what the remediator reports and that nothing follows (spec 13.7).
func (c *CR) Failure() string {
	details := []string{fmt.Sprintf("%s %s reports failure", c.Kind, c.Name), c.FailureReason, c.FailureMessage}
	details = slices.DeleteFunc(details, func(detail string) bool { return detail == "" })
	return strings.Join(details, ": ") + ", and no step follows"
}

// addFencing records a condition that says that the node is safely down. If a remediator
// only reports success, that counts, too: it comes no earlier.
func (c *CR) addFencing(condition map[string]any) {
	switch condition["type"] {
	case v1alpha1.RemediationSucceeded, v1alpha1.RemediationFenceAgentActionSucceeded, v1alpha1.RemediationFencingSucceeded:
	default:
		return
	}
	if condition["status"] != string(corev1.ConditionTrue) {
		return
	}
	c.Fenced = true
	text, _ := condition["lastTransitionTime"].(string)
	since, err := time.Parse(time.RFC3339, text)
	if err != nil || since.Before(c.CreationTimestamp.Time) {
		return
	}
	c.FencedSince = health.Earliest(c.FencedSince, since.UTC())
}

// pick returns the named entries of m, or nil if there are none.
func pick(m map[string]string, keys ...string) map[string]string {
	var picked map[string]string
	for _, key := range keys {
		if value, ok := m[key]; ok {
			if picked == nil {
				picked = map[string]string{}
			}
			picked[key] = value
		}
	}
	return picked
}

// DeepCopyObject implements [runtime.Object].
func (c *CR) DeepCopyObject() runtime.Object {
	clone := *c
	clone.ObjectMeta = *c.ObjectMeta.DeepCopy()
	return &clone
}

// GetObjectKind implements [runtime.Object].
func (c *CR) GetObjectKind() schema.ObjectKind { return &c.TypeMeta }

// Node returns the name of the node that the CR is for (spec 1.4).
func (c *CR) Node() string {
	if node, ok := c.Annotations[v1alpha1.AnnotationNodeName]; ok {
		return node
	}
	return c.Name
}

// Template returns the name of the template the CR was created from, and whether
// it says so.
func (c *CR) Template() (name string, known bool) {
	name, known = c.Annotations[v1alpha1.AnnotationTemplateName]
	return name, known
}

// ControlPlane reports whether the CR has the label of the control plane.
func (c *CR) ControlPlane() bool {
	_, labelled := c.Labels[v1alpha1.LabelControlPlane]
	return labelled
}

// Deleting reports whether the deletion of the CR was requested.
func (c *CR) Deleting() bool { return c.DeletionTimestamp != nil }

// TimedOut reports whether the CR was told to stop. The value of the mark does not
// matter.
func (c *CR) TimedOut() bool {
	_, marked := c.Annotations[v1alpha1.AnnotationTimedOut]
	return marked
}

// TimedOutAt returns when the CR was told to stop, and false if it was not or if
// the value is no time that status can store: in UTC, in a year of four digits.
func (c *CR) TimedOutAt() (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, c.Annotations[v1alpha1.AnnotationTimedOut])
	if year := at.UTC().Year(); err != nil || at.IsZero() || year < 1 || year > 9999 {
		return time.Time{}, false
	}
	return at, true
}

// FencedAt returns the first instant at which the CR says that the node is safely down,
// and false if it does not say so. Without a plausible time, it is the instant now.
func (c *CR) FencedAt(now time.Time) (time.Time, bool) {
	if !c.Fenced {
		return time.Time{}, false
	}
	if c.FencedSince.IsZero() || c.FencedSince.After(now) {
		return now, true
	}
	return c.FencedSince, true
}

// OwnedBy reports whether the CR is an own CR of the owner (spec 1.4). An owner with a namespace has none in
// another one.
func (c *CR) OwnedBy(owner Owner) bool {
	if owner.Namespace != "" && c.Namespace != owner.Namespace {
		return false
	}
	for i := range c.OwnerReferences {
		if owner.owns(&c.OwnerReferences[i]) {
			return true
		}
	}
	return false
}

// LeftBy reports whether a former health check of the name of an owner has left the CR: it refers to that one, and has
// a further owner. Otherwise garbage collection deletes it. An owner without uid stands for a health check that is gone.
func (c *CR) LeftBy(owner Owner) bool {
	if !c.OwnedBy(owner) || len(c.OwnerReferences) < 2 {
		return false
	}
	return !slices.ContainsFunc(c.OwnerReferences, func(reference metav1.OwnerReference) bool {
		return owner.owns(&reference) && reference.UID == owner.UID
	})
}

// Owners returns the names of the NodeHealthChecks that own the CR. It does not compare
// the uid: a NodeHealthCheck that was deleted and created again goes on with its CRs.
func (c *CR) Owners() []string {
	var names []string
	for i := range c.OwnerReferences {
		owner := &c.OwnerReferences[i]
		if owner.Kind == v1alpha1.Kind && owner.APIVersion == v1alpha1.SchemeGroupVersion.String() {
			names = append(names, owner.Name)
		}
	}
	return names
}

// SameAs reports whether both lead to the same decisions: they have equal metadata, and equal
// values in the conditions that are read.
func (c *CR) SameAs(other *CR) bool {
	return c.UID == other.UID && c.Succeeded == other.Succeeded &&
		c.FailureReason == other.FailureReason && c.FailureMessage == other.FailureMessage &&
		c.PermanentNodeDeletionExpected == other.PermanentNodeDeletionExpected && c.Fenced == other.Fenced &&
		c.DeletionTimestamp.Equal(other.DeletionTimestamp) &&
		maps.Equal(c.Annotations, other.Annotations) && maps.Equal(c.Labels, other.Labels) &&
		slices.EqualFunc(c.OwnerReferences, other.OwnerReferences, sameOwner)
}

// sameOwner reports whether two references are to the same object. Garbage collection removes references to deleted
// objects.
func sameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion
}

// Reference returns the reference to the CR as status shows it (spec 18.3).
func (c *CR) Reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: c.APIVersion, Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, UID: c.UID}
}

// AwaitsReplacement reports whether the remediator still works although the Node is
// gone, because it replaces the node for good (spec 17.3).
func (c *CR) AwaitsReplacement() bool {
	return c.PermanentNodeDeletionExpected == corev1.ConditionTrue && c.Succeeded != corev1.ConditionTrue
}

// MayTimeOut reports whether the CR may be marked as timed out: once, and never after it
// has succeeded (spec 13.8).
func (c *CR) MayTimeOut() bool { return !c.TimedOut() && c.Succeeded != corev1.ConditionTrue }
