// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objecttest makes templates, remediation objects (CRs) and their owners for tests.
package objecttest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// What the objects have in common.
const (
	GroupVersion = "example.com/v1"
	Namespace    = "remediators"
	Kind         = "RebootRemediation"
)

// Epoch is when the objects were created.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Template returns a template.
func Template(changes ...func(*object.Template)) *object.Template {
	template := &object.Template{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion, Kind: Kind + "Template"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "reboot", UID: "template-uid", ResourceVersion: "1"},
		Spec:       map[string]any{"strategy": "reboot"},
	}
	for _, change := range changes {
		change(template)
	}
	return template
}

// SupportsMultiple has a template support several templates of its kind.
func SupportsMultiple(t *object.Template) {
	t.Annotations = map[string]string{v1alpha1.AnnotationMultipleTemplates: ""}
}

// CR returns an own CR that is named like its node.
func CR(name string, changes ...func(*object.CR)) *object.CR {
	cr := &object.CR{
		TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: name, UID: types.UID(name + "-uid"), CreationTimestamp: metav1.NewTime(Epoch),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: "workers"}},
		},
	}
	for _, change := range changes {
		change(cr)
	}
	return cr
}

// Foreign takes the owners from a CR.
func Foreign(c *object.CR) { c.OwnerReferences = nil }

// Deleting has the deletion of a CR requested.
func Deleting(c *object.CR) { c.DeletionTimestamp = new(metav1.NewTime(Epoch)) }

// Succeeded has a CR report success.
func Succeeded(c *object.CR) { c.Succeeded = "True" }

// Failed has a CR report a failure.
func Failed(c *object.CR) { c.Succeeded = "False" }

// AwaitsDeletion has a CR expect the deletion of its Node.
func AwaitsDeletion(c *object.CR) { c.PermanentNodeDeletionExpected = "True" }

// TimedOut marks a CR as timed out.
func TimedOut(c *object.CR) { Annotate(v1alpha1.AnnotationTimedOut, "2026-01-01T00:00:00Z")(c) }

// OfKind gives a CR another kind.
func OfKind(k string) func(*object.CR) { return func(c *object.CR) { c.Kind = k } }

// OfGroup gives a CR another API version.
func OfGroup(gv string) func(*object.CR) { return func(c *object.CR) { c.APIVersion = gv } }

// InNamespace puts a CR into another namespace.
func InNamespace(n string) func(*object.CR) { return func(c *object.CR) { c.Namespace = n } }

// ForNode names the node of a CR.
func ForNode(n string) func(*object.CR) { return Annotate(v1alpha1.AnnotationNodeName, n) }

// From names the template of a CR.
func From(t string) func(*object.CR) { return Annotate(v1alpha1.AnnotationTemplateName, t) }

// Annotate sets an annotation of a CR.
func Annotate(key, value string) func(*object.CR) {
	return func(c *object.CR) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[key] = value
	}
}

// Named gives a template another name.
func Named(namespace, name string) func(*object.Template) {
	return func(t *object.Template) { t.Namespace, t.Name = namespace, name }
}

// Live returns an object of the API of the kind of the tests.
func Live(name string, uid types.UID, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(GroupVersion)
	u.SetKind(Kind)
	u.SetNamespace(Namespace)
	u.SetName(name)
	u.SetUID(uid)
	u.SetResourceVersion("7")
	for _, change := range changes {
		change(u)
	}
	return u
}

// OwnedBy has a NodeHealthCheck own a live object.
func OwnedBy(nhc string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: nhc, UID: "another-uid"}})
	}
}

// Annotated sets an annotation of a live object.
func Annotated(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		u.SetAnnotations(annotations)
	}
}

// WithCondition sets a condition of a live object.
func WithCondition(typ, status string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		list = append(list, map[string]any{"type": typ, "status": status})
		_ = unstructured.SetNestedSlice(u.Object, list, "status", "conditions")
	}
}

// Owner returns a NodeHealthCheck of this name as owner.
func Owner(name string) object.Owner {
	return object.Owner{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: name}
}

// Check returns a NodeHealthCheck.
func Check(changes ...func(*v1alpha1.NodeHealthCheck)) *v1alpha1.NodeHealthCheck {
	nhc := &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "workers-uid", Generation: 3, ResourceVersion: "10"}}
	for _, change := range changes {
		change(nhc)
	}
	return nhc
}

// FailsReady makes a NodeHealthCheck that nodes are unhealthy for that are not ready for a
// minute.
func FailsReady(nhc *v1alpha1.NodeHealthCheck) {
	nhc.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False", Duration: metav1.Duration{Duration: time.Minute}}}
}

// Node returns a Node.
func Node(name string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid")}}
	for _, change := range changes {
		change(node)
	}
	return node
}

// LabelledNode sets a label of a Node.
func LabelledNode(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, key, value) }
}

// AnnotatedNode sets an annotation of a Node.
func AnnotatedNode(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value) }
}

// StepOf returns the CR of a node with a UID, of the usual template.
func StepOf(node, uid string, changes ...func(*object.CR)) *object.CR {
	return CR(node, append([]func(*object.CR){Foreign, ForNode(node), From("reboot"), func(cr *object.CR) { cr.UID = types.UID(uid) }}, changes...)...)
}
