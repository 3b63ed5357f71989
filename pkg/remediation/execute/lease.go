// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// LeaseResource is that of the leases of nodes.
var LeaseResource = coordinationv1.SchemeGroupVersion.WithResource("leases").GroupResource()

// writeLease creates the lease, or updates it bound to the observed resourceVersion. If another client wrote
// it first, the lease stays as it is. That is no failure.
func (e *Executor) writeLease(ctx context.Context, lease *coordinationv1.Lease, outcome *pendingOutcome) error {
	leases := e.Kube.CoordinationV1().Leases(e.LeaseNamespace)
	var written *coordinationv1.Lease
	var err error
	if lease.ResourceVersion == "" {
		written, err = leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: FieldManager})
	} else {
		written, err = leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: FieldManager})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || (lease.ResourceVersion != "" && apierrors.IsNotFound(err)) {
		outcome.set(remediation.LeaseLost)
		klog.FromContext(ctx).V(2).Info("Lost the lease to another client", "lease", lease.Name)
		return errStop
	}
	if err != nil {
		return fmt.Errorf("writing lease %s: %w", lease.Name, err)
	}
	outcome.lease = written
	outcome.LeaseWritten = true
	e.OnWrite(LeaseResource, written.ResourceVersion)
	klog.FromContext(ctx).V(2).Info("Wrote lease", "lease", klog.KObj(written))
	return nil
}

// releaseLease deletes the lease, unless it has changed since it was observed. Then the next
// sync looks at it again.
func (e *Executor) releaseLease(ctx context.Context, lease *coordinationv1.Lease, outcome *pendingOutcome) error {
	if outcome.lease != nil {
		lease = outcome.lease
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}}
	err := e.Kube.CoordinationV1().Leases(e.LeaseNamespace).Delete(ctx, lease.Name, options)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		outcome.ReleaseFailed = true
		return nil
	case err != nil:
		outcome.ReleaseFailed = true
		return fmt.Errorf("releasing lease %s: %w", lease.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Released lease", "lease", klog.KObj(lease))
	return nil
}

// removeConfirmation removes the one annotation from the Node, bound to its uid.
func (e *Executor) removeConfirmation(ctx context.Context, action remediation.RemoveConfirmation) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         action.UID,
		"annotations": map[string]any{v1alpha1.AnnotationManuallyConfirmedHealthy: nil},
	}})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	_, err = e.Kube.CoreV1().Nodes().Patch(ctx, action.Node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the confirmation from node %s: %w", action.Node, err)
	}
	klog.FromContext(ctx).V(2).Info("Removed the manual confirmation")
	return nil
}
