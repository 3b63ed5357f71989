// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

var (
	machineResource = schema.GroupVersionResource{Group: "machine.openshift.io", Version: "v1beta1", Resource: "machines"}
	machineM        = remediation.MachineReference{Kind: machineResource.GroupVersion().WithKind("Machine"), Namespace: "machines", Name: "m", UID: "m-uid"}

	deleteMachine = actions(remediation.Confirm{}, remediation.DeleteMachine{Machine: machineM})
	request       = actions(remediation.Confirm{}, remediation.RequestExternal{Machine: machineM})
	endRequest    = actions(remediation.EndExternal{Machine: machineM})
)

// newMachineExecutor has an API server with one Machine, which was confirmed at resourceVersion 12.
func newMachineExecutor() *testExecutor {
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetGroupVersionKind(machineM.Kind)
	live.SetNamespace("machines")
	live.SetName("m")
	live.SetUID("m-uid")
	live.SetResourceVersion("12")
	th := newTestExecutor(live)
	th.Mapping = func(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
		if gvk != machineM.Kind {
			return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
		}
		return &meta.RESTMapping{Resource: machineResource, GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace}, nil
	}
	th.Confirm = func(context.Context, *remediation.Node) (Confirmation, error) {
		return Confirmation{Refusal: th.refusal, MachineVersion: "12"}, th.nodeErr
	}
	return th
}

// refuse answers a verb on Machines with an error.
func (th *testExecutor) refuse(verb string, err error) {
	th.client.PrependReactor(verb, "machines", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func TestDeleteMachine(t *testing.T) {
	t.Parallel()
	th := newMachineExecutor()
	outcome := th.run(t.Context(), deleteMachine)
	require.Equal(t, remediation.Outcome{Result: remediation.Requested, CreatedAt: epoch}, outcome)
	requests := th.client.Actions()
	require.Len(t, requests, 1)
	request := requests[0].(clienttesting.DeleteActionImpl)
	require.Equal(t, "machines", request.GetNamespace())
	require.Equal(t, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("m-uid")), ResourceVersion: new("12")}},
		request.GetDeleteOptions(), "M10.2: bound to uid and resourceVersion of the last look, without a propagation policy")
}

// TestMachineIsLookedAtLast: nothing is requested for what the last look finds well (spec M8.4).
func TestMachineIsLookedAtLast(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refusal v1alpha1.DecisionReason
		err     error
		want    remediation.Result
	}{
		"M8.4 recovered": {refusal: v1alpha1.DecidedRecovering, want: remediation.Recovered},
		"M8.4 excluded":  {refusal: v1alpha1.DecidedExcluded, want: remediation.Refused},
		"P5 no answer":   {err: errServer, want: remediation.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, plan := range []remediation.NodePlan{deleteMachine, request} {
				th := newMachineExecutor()
				th.refusal, th.nodeErr = tc.refusal, tc.err
				require.Equal(t, tc.want, th.run(t.Context(), plan).Result)
				require.Empty(t, th.client.Actions())
			}
		})
	}
}

// TestMachineRequestsFail: a conflict is judged again, everything else is tried again (spec M10.2).
func TestMachineRequestsFail(t *testing.T) {
	t.Parallel()
	resource := machineResource.GroupResource()
	conflict, notFound := apierrors.NewConflict(resource, "m", errors.New("it was changed")), apierrors.NewNotFound(resource, "m")
	forbidden := apierrors.NewForbidden(resource, "m", errors.New("ValidatingAdmissionPolicy 'nhc-controller-machines' denied request"))
	for name, tc := range map[string]struct {
		plan   remediation.NodePlan
		verb   string
		err    error
		want   remediation.Result
		reason v1alpha1.DecisionReason
	}{
		"M10.2 it has changed since":                    {plan: deleteMachine, verb: "delete", err: conflict, want: remediation.Deferred},
		"M10.2 it is gone":                              {plan: deleteMachine, verb: "delete", err: notFound, want: remediation.Deferred},
		"M20.3 the deletion is refused":                 {plan: deleteMachine, verb: "delete", err: forbidden, want: remediation.Failed, reason: v1alpha1.DecidedDeleteFailed},
		"P5 it may be deleted all the same":             {plan: deleteMachine, verb: "delete", err: errServer, want: remediation.Unknown, reason: v1alpha1.DecidedDeleteFailed},
		"M11.1 it was replaced by another of that name": {plan: request, verb: "patch", err: conflict, want: remediation.Deferred},
		"M11.1 it is gone":                              {plan: request, verb: "patch", err: notFound, want: remediation.Deferred},
		"M20.3 the annotation is refused":               {plan: request, verb: "patch", err: forbidden, want: remediation.Failed, reason: v1alpha1.DecidedUpdateFailed},
		"P5 it may have been asked for":                 {plan: request, verb: "patch", err: errServer, want: remediation.Unknown, reason: v1alpha1.DecidedUpdateFailed},
		"M11.2 the end: it is gone":                     {plan: endRequest, verb: "patch", err: notFound},
		"M11.2 the end: another one by now":             {plan: endRequest, verb: "patch", err: conflict},
		"M11.2 the end: it is forbidden":                {plan: endRequest, verb: "patch", err: forbidden},
		"M11.2 the end: nothing begins":                 {plan: endRequest, verb: "patch", err: errServer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newMachineExecutor()
			th.refuse(tc.verb, tc.err)
			outcome := th.run(t.Context(), tc.plan)
			require.Equal(t, tc.want, outcome.Result)
			require.Equal(t, tc.reason, outcome.Reason)
			require.Equal(t, time.Time{}, outcome.CreatedAt)
			if !apierrors.IsConflict(tc.err) && !apierrors.IsNotFound(tc.err) {
				require.ErrorIs(t, outcome.Err, tc.err)
				require.ErrorContains(t, outcome.Err, "Machine m")
			} else {
				require.NoError(t, outcome.Err)
			}
			require.Len(t, th.client.Actions(), 1, "P1: it is left to the next attempt")
		})
	}
	th := newMachineExecutor()
	th.Mapping = func(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
		return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
	}
	for _, plan := range []remediation.NodePlan{deleteMachine, request, endRequest} {
		require.Error(t, th.run(t.Context(), plan).Err, "the API has been removed")
	}
}

// TestMachineAnnotations: the patches are of the keys alone, bound to the uid (spec M11.1, M11.2).
func TestMachineAnnotations(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan    remediation.NodePlan
		patch   string
		outcome remediation.Outcome
	}{
		"M11.1 both keys in one patch": {
			plan: request, outcome: remediation.Outcome{Result: remediation.Requested, CreatedAt: epoch},
			patch: `{"metadata": {"uid": "m-uid", "annotations": {"host.metal3.io/external-remediation": "", "machine.openshift.io/remediation-strategy": "external-baremetal"}}}`,
		},
		"M11.2 the second key alone": {
			plan:  endRequest,
			patch: `{"metadata": {"uid": "m-uid", "annotations": {"machine.openshift.io/remediation-strategy": null}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newMachineExecutor()
			require.Equal(t, tc.outcome, th.run(t.Context(), tc.plan))
			requests := th.client.Actions()
			require.Len(t, requests, 1)
			patch := requests[0].(clienttesting.PatchActionImpl)
			require.Equal(t, types.MergePatchType, patch.GetPatchType())
			require.Equal(t, FieldManager, patch.GetPatchOptions().FieldManager)
			require.Empty(t, patch.GetSubresource())
			require.JSONEq(t, tc.patch, string(patch.GetPatch()))
			require.Equal(t, []string{"machines.machine.openshift.io 12"}, th.written, "P9: the caches have to show it")
		})
	}
}
