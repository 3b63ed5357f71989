// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Former is a health check that is gone, or was replaced by another one of its name.
type Former struct {
	// Present is the health check that has its name now, without uid if there is none, and Checks where it is served.
	Present object.Owner
	Checks  schema.GroupVersionResource
	// CRs are the cached CRs of all watched kinds.
	CRs map[schema.GroupKind]cache.Indexer
	// Remembered are CRs that the process knows to be of the former one. Garbage collection may have removed their
	// references to it.
	Remembered sets.Set[types.UID]
}

// left returns the CRs that the caches show.
func (f *Former) left() (crs []*object.CR) {
	for _, indexer := range f.CRs {
		for _, obj := range indexer.List() {
			cr := obj.(*object.CR)
			forgotten := f.Remembered.Has(cr.UID) && !cr.OwnedBy(f.Present)
			if !cr.Deleting() && (forgotten || cr.LeftBy(f.Present)) {
				crs = append(crs, cr)
			}
		}
	}
	return crs
}

// EndFormer deletes the CRs that a former health check has left, each bound to its uid (spec 4.8, M3.5). It reads live
// which health check has the name: the caches of CRs may be ahead. If one CR cannot be deleted, it deletes the others
// all the same. It only needs Client and Mapping.
func (e *Executor) EndFormer(ctx context.Context, f *Former) error {
	if len(f.left()) == 0 {
		return nil
	}
	// The controller may list health checks, not read one by one.
	named := metav1.ListOptions{FieldSelector: "metadata.name=" + f.Present.Name}
	live, err := e.Client.Resource(f.Checks).Namespace(f.Present.Namespace).List(ctx, named)
	if err != nil {
		return fmt.Errorf("reading which %s is named %s: %w", f.Present.Kind, f.Present.Name, err)
	}
	for i := range live.Items {
		if live.Items[i].GetName() == f.Present.Name {
			f.Present.UID = live.Items[i].GetUID()
		}
	}
	var outcome pendingOutcome
	for _, cr := range f.left() {
		klog.FromContext(ctx).Info("Deleting what a former health check has left", "kind", cr.Kind, "remediation", klog.KObj(cr))
		_ = e.send(ctx, object.Owner{}, nil, remediation.Delete{CR: cr}, &outcome) // The outcome has the error.
	}
	return outcome.Err
}

// DeleteLeases deletes leases, each bound to the version that was seen. It only needs Kube and LeaseNamespace.
func (e *Executor) DeleteLeases(ctx context.Context, leases []*coordinationv1.Lease) error {
	var errs []error
	for _, lease := range leases {
		preconditions := &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
		err := e.Kube.CoordinationV1().Leases(e.LeaseNamespace).Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: preconditions})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
