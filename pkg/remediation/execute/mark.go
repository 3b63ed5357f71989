// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// denied reports whether admission has refused a write, or did not answer (spec 13.5). After
// a missing permission or any other failure, a further attempt may succeed (P5).
func denied(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	message := status.Status().Message
	switch status.Status().Code {
	case http.StatusForbidden:
		// The authorizer always uses the same text, which names the verb and the resource.
		return !strings.Contains(message, " cannot patch resource ")
	case http.StatusUnprocessableEntity:
		return true
	default:
		return strings.Contains(message, "failed calling webhook") || (strings.Contains(message, "admission webhook") && strings.Contains(message, "denied the request"))
	}
}

// markTimedOut writes the annotation, unless the live object already has it, has
// succeeded or is another one. The live object decides, because with some remediators the
// annotation turns a success into a failure. Remediators write to it too, so it is read
// again after a conflict. markTimedOut returns the time of the mark: an earlier process
// may have written it and died before status had it.
func (e *Executor) markTimedOut(ctx context.Context, action remediation.MarkTimedOut) (at time.Time, err error) {
	cr := action.CR
	client, mapping, err := e.client(cr.GroupVersionKind(), cr.Namespace)
	if err != nil {
		return action.At, err
	}
	for range markAttempts {
		if at, err = e.mark(ctx, client, mapping, action); !apierrors.IsConflict(err) {
			break
		}
	}
	return at, err
}

// markAttempts is how often the annotation is tried while others write to the CR.
const markAttempts = 5

// mark is one attempt to write the annotation.
func (e *Executor) mark(ctx context.Context, client dynamic.ResourceInterface, mapping *meta.RESTMapping, action remediation.MarkTimedOut) (time.Time, error) {
	cr := action.CR
	current, err := client.Get(ctx, cr.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return action.At, errNotThere
	}
	if err != nil {
		return action.At, fmt.Errorf("reading %s %s: %w", cr.Kind, klog.KObj(cr), err)
	}
	live := object.ParseCR(current)
	if live.UID != cr.UID {
		return action.At, errNotThere
	}
	if !live.MayTimeOut() && (!action.Anew || live.Succeeded == corev1.ConditionTrue) {
		if earlier, marked := live.TimedOutAt(); marked {
			return earlier, nil
		}
		return action.At, nil
	}
	patch, err := timedOutPatch(cr.UID, current.GetResourceVersion(), action.At)
	if err != nil {
		return action.At, err
	}
	patched, err := client.Patch(ctx, cr.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) {
		return action.At, errNotThere
	}
	if err != nil {
		return action.At, fmt.Errorf("annotating %s %s: %w", cr.Kind, klog.KObj(cr), err)
	}
	e.OnWrite(mapping.Resource.GroupResource(), patched.GetResourceVersion())
	klog.FromContext(ctx).Info("Marked remediation as timed out", "kind", cr.Kind, "remediation", klog.KObj(cr), "endsStep", action.EndsStep)
	return action.At, nil
}

// timedOutPatch returns the patch of the annotation. The resource version binds it to the
// object that was read: if a success is reported in between, the patch fails with a
// conflict.
func timedOutPatch(uid types.UID, resourceVersion string, at time.Time) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             uid,
		"resourceVersion": resourceVersion,
		"annotations":     map[string]string{v1alpha1.AnnotationTimedOut: at.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return patch, nil
}
