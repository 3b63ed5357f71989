// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Owner is the object on whose behalf remediations run.
type Owner struct {
	APIVersion, Kind string
	// Namespace is empty for an owner that has none.
	Namespace, Name string
	UID             types.UID
	// ResourceVersion is that of the decision.
	ResourceVersion string
}

// OwnerOf returns a NodeHealthCheck as owner.
func OwnerOf(nhc *v1alpha1.NodeHealthCheck) Owner {
	return Owner{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: nhc.Name, UID: nhc.UID, ResourceVersion: nhc.ResourceVersion}
}

// LeaseHolder returns the holder identity in node leases (spec 3). A slash separates the
// namespace: with a dash, two owners could have the same identity.
func (o Owner) LeaseHolder() string {
	if o.Namespace == "" {
		return o.Kind + "-" + o.Name
	}
	return o.Kind + "-" + o.Namespace + "/" + o.Name
}

// owns reports whether an ownerReference is to the owner. It does not compare the uid: an
// owner that was deleted and created again goes on with its CRs (spec 1.4).
func (o Owner) owns(reference *metav1.OwnerReference) bool {
	return reference.APIVersion == o.APIVersion && reference.Kind == o.Kind && reference.Name == o.Name
}

// reference returns the ownerReference of a CR (spec 11.1).
func (o Owner) reference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Controller: new(false)}
}
