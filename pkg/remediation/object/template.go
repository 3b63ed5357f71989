// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Template is what the controller reads of a remediation template. It is
// immutable: it lives in caches and is shared.
type Template struct {
	metav1.TypeMeta
	// ObjectMeta is cut down to what identifies the object and the annotation for
	// multiple templates.
	metav1.ObjectMeta
	// Spec is the map at spec.template.spec, nil if there is none.
	Spec map[string]any
	// CopiedLabels and CopiedAnnotations are those of spec.template.metadata, which the CRs of
	// MachineHealthChecks get (spec M12.2).
	CopiedLabels, CopiedAnnotations map[string]string
}

var _ runtime.Object = &Template{}

// ParseTemplate reads a template. It shares the spec with object.
func ParseTemplate(object *unstructured.Unstructured) *Template {
	template := &Template{
		TypeMeta: metav1.TypeMeta{APIVersion: object.GetAPIVersion(), Kind: object.GetKind()},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       object.GetNamespace(),
			Name:            object.GetName(),
			UID:             object.GetUID(),
			ResourceVersion: object.GetResourceVersion(),
			Annotations:     pick(object.GetAnnotations(), v1alpha1.AnnotationMultipleTemplates),
		},
	}
	spec, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec")
	template.Spec, _ = spec.(map[string]any)
	// A malformed field counts as not set.
	template.CopiedLabels, _, _ = unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
	template.CopiedAnnotations, _, _ = unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "annotations")
	return template
}

// DeepCopyObject implements [runtime.Object].
func (t *Template) DeepCopyObject() runtime.Object {
	clone := *t
	clone.ObjectMeta = *t.ObjectMeta.DeepCopy()
	clone.Spec = runtime.DeepCopyJSON(t.Spec)
	clone.CopiedLabels, clone.CopiedAnnotations = maps.Clone(t.CopiedLabels), maps.Clone(t.CopiedAnnotations)
	return &clone
}

// GetObjectKind implements [runtime.Object].
func (t *Template) GetObjectKind() schema.ObjectKind { return &t.TypeMeta }

// SupportsMultiple reports whether the remediator accepts CRs that are not named
// like their node.
func (t *Template) SupportsMultiple() bool {
	_, present := t.Annotations[v1alpha1.AnnotationMultipleTemplates]
	return present
}

// SameAs reports whether both templates give the same CRs and the same checks. The status
// of a template does not matter.
func (t *Template) SameAs(other *Template) bool {
	return t.UID == other.UID && maps.Equal(t.Annotations, other.Annotations) && reflect.DeepEqual(t.Spec, other.Spec) &&
		maps.Equal(t.CopiedLabels, other.CopiedLabels) && maps.Equal(t.CopiedAnnotations, other.CopiedAnnotations)
}
