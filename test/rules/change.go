// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// The resources that are judged besides those of Config.
var (
	Nodes            = corev1.SchemeGroupVersion.WithResource("nodes")
	NodeHealthChecks = v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)
	Leases           = coordinationv1.SchemeGroupVersion.WithResource("leases")
)

// Change is one version of an object, or its end.
type Change struct {
	Resource schema.GroupVersionResource
	// Key names the object, see KeyOf.
	Key string
	// ResourceVersion is that of the version, or of the deletion: the earliest possible one if that is not known.
	ResourceVersion uint64
	// Time is when the change was visible at the latest: it was stored before. It is zero for
	// objects that existed from the beginning.
	Time time.Time
	// Object is nil if it is gone. The judge keeps it, and it must not be changed.
	Object *unstructured.Unstructured
	// Gap means that changes of the object before this one may be unknown.
	Gap bool
}

// KeyOf returns the name of an object, with its namespace if it has one.
func KeyOf(object metav1.Object) string { return key(object.GetNamespace(), object.GetName()) }

func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
