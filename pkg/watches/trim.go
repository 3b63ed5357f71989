// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Trim keeps the metadata that identifies an object, and the value at a path of fields, if a path is given.
func Trim(object *unstructured.Unstructured, path ...string) *unstructured.Unstructured {
	trimmed := &unstructured.Unstructured{Object: map[string]any{}}
	trimmed.SetGroupVersionKind(object.GroupVersionKind())
	trimmed.SetNamespace(object.GetNamespace())
	trimmed.SetName(object.GetName())
	trimmed.SetUID(object.GetUID())
	trimmed.SetResourceVersion(object.GetResourceVersion())
	if len(path) == 0 {
		return trimmed
	}
	if value, found, _ := unstructured.NestedFieldNoCopy(object.Object, path...); found {
		// A value that cannot be copied cannot be understood either.
		_ = unstructured.SetNestedField(trimmed.Object, runtime.DeepCopyJSONValue(value), path...)
	}
	return trimmed
}

// SameContent reports whether two objects that Trim has left have the same content and annotations.
func SameContent(before, current any) bool {
	old, ok := before.(*unstructured.Unstructured)
	u, also := current.(*unstructured.Unstructured)
	return ok && also && equality.Semantic.DeepEqual(old.Object["spec"], u.Object["spec"]) &&
		equality.Semantic.DeepEqual(old.Object["status"], u.Object["status"]) && maps.Equal(old.GetAnnotations(), u.GetAnnotations())
}
