// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// reactKube answers a request for a lease or a node with an error.
func (th *testExecutor) reactKube(verb, resource string, err error) {
	th.kube.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func TestExecuteWriteLease(t *testing.T) {
	t.Parallel()
	th := newTestExecutor()
	fresh := newLease()
	require.NoError(t, th.run(t.Context(), actions(remediation.WriteLease{Lease: fresh})).Err)
	stored, err := th.kube.CoordinationV1().Leases("medik8s-leases").Get(t.Context(), "node-n", metav1.GetOptions{})
	require.NoError(t, err, "14.1 3")
	require.Equal(t, fresh.Spec, stored.Spec)
	require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n-uid"}}, stored.OwnerReferences, "14.1: no controller flag")
	require.Len(t, th.written, 1)

	renewed := held(ours, epoch)
	require.NoError(t, th.run(t.Context(), actions(remediation.WriteLease{Lease: renewed})).Err)
	requests := th.kube.Actions()
	update := requests[len(requests)-1].(clienttesting.UpdateActionImpl)
	require.Equal(t, "5", update.GetObject().(*coordinationv1.Lease).ResourceVersion, "P9: bound to what was observed")
	require.Equal(t, "medik8s-leases", update.GetNamespace())
	require.Equal(t, FieldManager, update.UpdateOptions.FieldManager)
}

func TestExecuteNoCRWithoutLease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		verb  string
		lease *coordinationv1.Lease
		err   error
	}{
		"14.2 somebody else was faster to create it": {verb: "create", lease: newLease(), err: apierrors.NewAlreadyExists(LeaseResource, "node-n")},
		"14.2 somebody else was faster to update it": {verb: "update", lease: held(ours, epoch), err: apierrors.NewConflict(LeaseResource, "node-n", nil)},
		"14.2 it has just gone":                      {verb: "update", lease: held(ours, epoch), err: apierrors.NewNotFound(LeaseResource, "node-n")},
		"P5 it cannot be written":                    {verb: "update", lease: held(ours, epoch), err: errServer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor()
			th.reactKube(tc.verb, "leases", tc.err)
			outcome := th.run(t.Context(), actions(remediation.WriteLease{Lease: tc.lease}, remediation.Create{Object: rendered(sick("n"), reboot())}))
			if errors.Is(tc.err, errServer) {
				require.ErrorIs(t, outcome.Err, errServer)
				require.NotEqual(t, remediation.LeaseLost, outcome.Result)
			} else {
				require.NoError(t, outcome.Err, "a race that is lost is no failure")
				require.Equal(t, remediation.LeaseLost, outcome.Result)
			}
			require.Nil(t, outcome.NewCR())
			require.Empty(t, th.writes(), "a CR is created only while the lease is held")
			require.Empty(t, th.written)
		})
	}
}

// TestExecuteTellsWhatFailed: a decision names the action that failed, and only one that
// the node waits for.
func TestExecuteTellsWhatFailed(t *testing.T) {
	t.Parallel()
	create, mark := remediation.Create{Object: rendered(sick("n"), reboot())}, remediation.MarkTimedOut{CR: cr("n"), At: epoch, EndsStep: true}
	write := remediation.WriteLease{Lease: newLease()}
	for name, tc := range map[string]struct {
		plan           remediation.NodePlan
		verb, resource string
		want           v1alpha1.DecisionReason
	}{
		"the lease for a CR":       {plan: actions(write, create), verb: "create", resource: "leases", want: "UpdateFailed"},
		"the lease of the last CR": {plan: actions(write), verb: "create", resource: "leases"},
		"the lease to release":     {plan: actions(remediation.ReleaseLease{Lease: held(ours, epoch)}), verb: "delete", resource: "leases"},
		"the CR":                   {plan: actions(write, create), verb: "create", want: "CreateFailed"},
		"the end of a step":        {plan: actions(mark, write, create), verb: "get", want: "UpdateFailed"},
		"a mark that only helps":   {plan: actions(remediation.MarkTimedOut{CR: cr("n"), At: epoch}), verb: "get"},
		"a deletion":               {plan: actions(remediation.Delete{CR: cr("n")}), verb: "delete", want: "DeleteFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor()
			if tc.resource == "leases" {
				th.reactKube(tc.verb, "leases", errServer)
			} else {
				th.react(tc.verb, "", errServer)
			}
			outcome := th.run(t.Context(), tc.plan)
			require.ErrorIs(t, outcome.Err, errServer)
			require.Equal(t, tc.want, outcome.Reason)
		})
	}
}

func TestExecuteReleaseLease(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(LeaseResource, "node-n", nil)
	for name, tc := range map[string]struct{ err, want error }{
		"14.9 released":    {},
		"14.9 it was gone": {err: apierrors.NewNotFound(LeaseResource, "node-n")},
		"14.9 another client has taken it: it stays, we look again": {err: conflict},
		"P5 it failed": {err: errServer, want: errServer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor()
			th.reactKube("delete", "leases", tc.err)
			outcome := th.run(t.Context(), actions(remediation.ReleaseLease{Lease: held(ours, epoch)}))
			if tc.want == nil {
				require.NoError(t, outcome.Err)
			} else {
				require.ErrorIs(t, outcome.Err, tc.want)
			}
			require.Equal(t, tc.want != nil || apierrors.IsConflict(tc.err), outcome.ReleaseFailed, "14.9: it is tried again")
			require.Len(t, th.kube.Actions(), 1)
			request := th.kube.Actions()[0].(clienttesting.DeleteActionImpl)
			require.Equal(t, &metav1.Preconditions{UID: new(types.UID("lease-uid")), ResourceVersion: new("5")}, request.GetDeleteOptions().Preconditions, "14.9: not one that has another holder meanwhile")
		})
	}
}

// TestExecuteEndStep: what the end of a step needs, and what follows it.
func TestExecuteEndStep(t *testing.T) {
	t.Parallel()
	denied := apierrors.NewForbidden(crResource.GroupResource(), "n", nil)
	notFound := apierrors.NewNotFound(crResource.GroupResource(), "n")
	tests := map[string]struct {
		change   func(*object.CR)
		live     bool // The live object has succeeded.
		verb     string
		err      error
		timedOut bool
		patched  bool
	}{
		"13.3 the step ends, the next one begins":                    {timedOut: true, patched: true},
		"13.4 after a success, without annotation":                   {live: true, timedOut: true},
		"13.5 denied after a failure: it goes on without":            {change: failed, verb: "patch", err: denied, timedOut: true, patched: true},
		"13.5 denied when its time is up: the same":                  {verb: "patch", err: denied, timedOut: true, patched: true},
		"P5 unread: the step has not ended":                          {verb: "get", err: errServer},
		"P5 unread after a failure: nor has it":                      {change: failed, verb: "get", err: errServer},
		"P9 11.6 the CR is gone: the step begins anew, not the next": {change: failed, verb: "get", err: notFound},
		"P9 11.6 it goes in between":                                 {change: failed, verb: "patch", err: notFound, patched: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := live("n", "n-uid")
			if tc.live {
				withCondition("Succeeded", "True")(live)
			}
			th := newTestExecutor(live)
			if tc.err != nil {
				th.react(tc.verb, "", tc.err)
			}
			own := cr("n")
			if tc.change != nil {
				tc.change(own)
			}
			next := rendered(sick("m"), reboot())
			outcome := th.run(t.Context(), actions(remediation.MarkTimedOut{CR: own, At: epoch, EndsStep: true}, remediation.ReleaseLease{Lease: held(ours, epoch)}, remediation.Create{Object: next}))
			var want []string
			if tc.patched {
				want = append(want, "patch n")
			}
			if tc.timedOut {
				want = append(want, "create m")
				require.Contains(t, outcome.TimedOut, own.UID, "13.3: timedOut is written to its status entry")
				require.NotNil(t, outcome.NewCR())
				require.NoError(t, outcome.Err)
			} else {
				require.Empty(t, outcome.TimedOut)
				require.Nil(t, outcome.NewCR())
				require.Error(t, outcome.Err)
				require.Empty(t, th.kube.Actions(), "14.7: nor is the lease released")
			}
			require.Equal(t, want, th.writes())
		})
	}
}

func TestExecuteRemoveConfirmation(t *testing.T) {
	t.Parallel()
	th := newTestExecutor()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid", Annotations: map[string]string{
		v1alpha1.AnnotationManuallyConfirmedHealthy: "", "example.com/a": "b",
	}}}
	require.NoError(t, th.kube.Tracker().Add(node))
	require.NoError(t, th.run(t.Context(), actions(remediation.RemoveConfirmation{Node: "n", UID: "n-uid"})).Err)
	require.Len(t, th.kube.Actions(), 1)
	patch := th.kube.Actions()[0].(clienttesting.PatchActionImpl)
	require.Equal(t, types.MergePatchType, patch.GetPatchType())
	require.JSONEq(t, `{"metadata": {"uid": "n-uid", "annotations": {"remediation.medik8s.io/manually-confirmed-healthy": null}}}`, string(patch.GetPatch()), "11.2: that one key, bound to the uid")
	after, err := th.kube.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"example.com/a": "b"}, after.Annotations, "16.6")

	th.reactKube("patch", "nodes", apierrors.NewNotFound(corev1.Resource("nodes"), "n"))
	require.NoError(t, th.run(t.Context(), actions(remediation.RemoveConfirmation{Node: "n"})).Err, "the Node is gone")
	th.reactKube("patch", "nodes", errServer)
	require.ErrorIs(t, th.run(t.Context(), actions(remediation.RemoveConfirmation{Node: "n"})).Err, errServer)
}
