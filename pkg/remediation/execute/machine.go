// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// deleteMachine requests the deletion of a Machine, unless it has changed since it was confirmed.
// Then the next sync judges it again (spec M10.2). The API server decides how its dependents are
// deleted.
func (e *Executor) deleteMachine(ctx context.Context, machine remediation.MachineReference, outcome *pendingOutcome) error {
	client, _, err := e.client(machine.Kind, machine.Namespace)
	if err != nil {
		return err
	}
	preconditions := &metav1.Preconditions{UID: &machine.UID, ResourceVersion: &outcome.machineVersion}
	err = client.Delete(ctx, machine.Name, metav1.DeleteOptions{Preconditions: preconditions})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		outcome.set(remediation.Deferred)
		return errStop
	}
	if err != nil {
		noteUncertain(err, outcome)
		return fmt.Errorf("deleting Machine %s: %w", machine.Name, err)
	}
	e.requested(outcome)
	klog.FromContext(ctx).Info("Requested the deletion of a Machine", "machine", klog.KRef(machine.Namespace, machine.Name))
	return nil
}

func (e *Executor) requested(outcome *pendingOutcome) {
	outcome.set(remediation.Requested)
	outcome.CreatedAt = e.Now()
}

// requestExternal sets both keys of a Machine in one request.
func (e *Executor) requestExternal(ctx context.Context, machine remediation.MachineReference, outcome *pendingOutcome) error {
	gone, err := e.annotate(ctx, machine, map[string]any{
		v1beta1.AnnotationExternalRemediation: "", v1beta1.AnnotationRemediationStrategy: v1beta1.StrategyExternalBaremetal,
	})
	if gone {
		outcome.set(remediation.Deferred)
		return errStop
	}
	if err != nil {
		noteUncertain(err, outcome)
		return err
	}
	e.requested(outcome)
	klog.FromContext(ctx).Info("Requested the external remediation of a Machine", "machine", klog.KRef(machine.Namespace, machine.Name))
	return nil
}

// endExternal removes the second key.
func (e *Executor) endExternal(ctx context.Context, machine remediation.MachineReference) error {
	_, err := e.annotate(ctx, machine, map[string]any{v1beta1.AnnotationRemediationStrategy: nil})
	return err
}

// annotate changes annotations of a Machine, bound to its uid. gone means that it does not exist
// any more, or was replaced by another one of its name.
func (e *Executor) annotate(ctx context.Context, machine remediation.MachineReference, annotations map[string]any) (gone bool, err error) {
	client, mapping, err := e.client(machine.Kind, machine.Namespace)
	if err != nil {
		return false, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": machine.UID, "annotations": annotations}})
	if err != nil {
		return false, fmt.Errorf("encoding the patch: %w", err)
	}
	patched, err := client.Patch(ctx, machine.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("annotating Machine %s: %w", machine.Name, err)
	}
	e.OnWrite(mapping.Resource.GroupResource(), patched.GetResourceVersion())
	return false, nil
}
