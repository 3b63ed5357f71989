// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"cmp"
	"context"
	"errors"
	"io"
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
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

var (
	crResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "rebootremediations"}
	errServer  = apierrors.NewInternalError(errors.New("out of order"))
)

// testExecutor is an executor with a fake API server.
type testExecutor struct {
	*Executor
	client *dynamicfake.FakeDynamicClient
	kube   *kubefake.Clientset
	scope  meta.RESTScope
	// refusal and nodeErr are what a live look at the node finds.
	refusal v1alpha1.DecisionReason
	nodeErr error
	looks   []string
	written []string
}

func newTestExecutor(objects ...runtime.Object) *testExecutor {
	th := &testExecutor{scope: meta.RESTScopeNamespace, kube: kubefake.NewClientset()}
	th.client = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{crResource: testKind + "List"}, objects...)
	th.Executor = &Executor{
		Client: th.client,
		Mapping: func(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
			if gvk.Kind != testKind {
				return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
			}
			return &meta.RESTMapping{Resource: crResource, GroupVersionKind: gvk, Scope: th.scope}, nil
		},
		Confirm: func(_ context.Context, node *remediation.Node) (Confirmation, error) {
			th.looks = append(th.looks, node.Name)
			return Confirmation{Refusal: th.refusal}, th.nodeErr
		},
		Kube:           th.kube,
		LeaseNamespace: "medik8s-leases",
		Now:            func() time.Time { return epoch },
		OnWrite: func(resource schema.GroupResource, version string) {
			th.written = append(th.written, resource.String()+" "+version)
		},
	}
	return th
}

// react answers a verb with an error, always or for one name.
func (th *testExecutor) react(verb, name string, err error) {
	th.client.PrependReactor(verb, crResource.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		if named, ok := action.(interface{ GetName() string }); ok && name != "" && named.GetName() != name {
			return false, nil, nil
		}
		return true, nil, err
	})
}

// writes returns the requests that write, as verb and name.
func (th *testExecutor) writes() []string {
	var all []string
	for _, action := range th.client.Actions() {
		switch action := action.(type) {
		case clienttesting.CreateActionImpl:
			object, _ := meta.Accessor(action.GetObject())
			all = append(all, "create "+object.GetName())
		case clienttesting.DeleteActionImpl:
			all = append(all, "delete "+action.GetName())
		case clienttesting.PatchActionImpl:
			all = append(all, "patch "+action.GetName())
		case clienttesting.UpdateActionImpl:
			all = append(all, "update")
		}
	}
	return all
}

func (th *testExecutor) create(t *testing.T) remediation.Outcome {
	t.Helper()
	return th.run(t.Context(), actions(remediation.Confirm{}, remediation.Create{Object: rendered(sick("n"), reboot())}))
}

func actions(all ...remediation.Action) remediation.NodePlan {
	return remediation.NodePlan{Node: new(sick("n")), Actions: all}
}

// run carries out a plan of the NodeHealthCheck of the tests.
func (th *testExecutor) run(ctx context.Context, plan remediation.NodePlan) remediation.Outcome {
	return th.Execute(ctx, ownerNamed("workers"), &plan)
}

func TestExecuteCreate(t *testing.T) {
	t.Parallel()
	th := newTestExecutor()
	th.client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		require.Equal(t, FieldManager, create.GetCreateOptions().FieldManager)
		create.GetObject().(*unstructured.Unstructured).SetResourceVersion("8")
		return false, nil, nil
	})
	outcome := th.create(t)
	require.NoError(t, outcome.Err)
	require.Equal(t, "n", outcome.NewCR().Name)
	require.True(t, outcome.NewCR().OwnedBy(ownerNamed("workers")))
	require.Equal(t, []string{"n"}, th.looks, "the last look at the node before the create")
	require.Equal(t, []string{"rebootremediations.example.com 8"}, th.written)
	require.Equal(t, []string{"create n"}, th.writes())
	_, err := th.client.Resource(crResource).Namespace(testNamespace).Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
}

func TestExecuteCreateClusterScoped(t *testing.T) {
	t.Parallel()
	th := newTestExecutor()
	th.scope = meta.RESTScopeRoot
	plan := actions(remediation.Create{Object: rendered(sick("n"), reboot(named("", "reboot")))})
	outcome := th.run(t.Context(), plan)
	require.NoError(t, outcome.Err)
	require.Empty(t, outcome.NewCR().Namespace, "11.1")
	outcome = th.run(t.Context(), actions(remediation.MarkTimedOut{CR: outcome.NewCR(), At: epoch}, remediation.Delete{CR: outcome.NewCR()}))
	require.NoError(t, outcome.Err)
	require.Equal(t, []string{"create n", "patch n", "delete n"}, th.writes())
}

func TestExecuteCreateNotAnyMore(t *testing.T) {
	t.Parallel()
	th := newTestExecutor()
	th.refusal = v1alpha1.DecidedRecovering
	outcome := th.create(t)
	require.Equal(t, remediation.Outcome{Result: remediation.Recovered, Reason: v1alpha1.DecidedRecovering}, outcome)
	require.Empty(t, th.writes(), "16: a node that has recovered in between gets no CR")
}

func TestExecuteCreateLookFails(t *testing.T) {
	t.Parallel()
	th := newTestExecutor()
	th.nodeErr = errServer
	outcome := th.create(t)
	require.ErrorIs(t, outcome.Err, errServer)
	require.NotEqual(t, remediation.Recovered, outcome.Result, "P5: no answer is not an answer")
	require.Empty(t, th.writes())
}

func TestExecuteCreateFails(t *testing.T) {
	t.Parallel()
	resource := crResource.GroupResource()
	for name, tc := range map[string]struct {
		err  error
		want remediation.Result
	}{
		"P5 an error without a known cause":       {err: errServer, want: remediation.Unknown},
		"P5 the connection was lost":              {err: io.ErrUnexpectedEOF, want: remediation.Unknown},
		"P5 it took too long":                     {err: apierrors.NewTimeoutError("slow", 1), want: remediation.Unknown},
		"P5 the server failed":                    {err: apierrors.NewInternalError(errors.New("etcd")), want: remediation.Unknown},
		"12.2 it was denied":                      {err: apierrors.NewForbidden(resource, "n", nil)},
		"12.2 it was invalid":                     {err: apierrors.NewInvalid(schema.GroupKind{}, "n", nil)},
		"12.2 there were too many requests":       {err: apierrors.NewTooManyRequests("busy", 1)},
		"12.2 the webhook could not be asked":     {err: apierrors.NewInternalError(errors.New(`failed calling webhook "far"`))},
		"12.2 the namespace of the template went": {err: apierrors.NewNotFound(resource, "n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor()
			th.react("create", "", tc.err)
			outcome := th.create(t)
			require.ErrorIs(t, outcome.Err, tc.err)
			require.ErrorContains(t, outcome.Err, "node n", "the error names the node")
			require.Equal(t, v1alpha1.DecidedCreateFailed, outcome.Reason)
			outcome.Err, outcome.Reason = nil, ""
			require.Equal(t, remediation.Outcome{Result: cmp.Or(tc.want, remediation.Failed)}, outcome, "P5: nothing was done, as far as is known")
			require.Empty(t, th.written)
		})
	}
}

func TestExecuteCreateUnservedKind(t *testing.T) {
	t.Parallel()
	th := newTestExecutor()
	plan := actions(remediation.Create{Object: rendered(sick("n"), reboot(func(t *object.Template) { t.Kind = "FenceTemplate" }))})
	outcome := th.run(t.Context(), plan)
	noMatch, ok := errors.AsType[*meta.NoKindMatchError](outcome.Err)
	require.True(t, ok, "%v", outcome.Err)
	require.Equal(t, "Fence", noMatch.GroupKind.Kind)
	require.Empty(t, th.looks, "the executor does not read the node in vain")
}

func TestExecuteCreateAlreadyExists(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		existing         *unstructured.Unstructured
		created, blocked bool
		unseen           bool // The caches have to show it.
	}{
		"P8 our own, whose answer was lost": {existing: live("n", "live-uid", ownedBy("workers")), created: true, unseen: true},
		"11.4 foreign":                      {existing: live("n", "live-uid"), blocked: true},
		"11.4 of another NodeHealthCheck":   {existing: live("n", "live-uid", ownedBy("others")), blocked: true},
		"P9 our own, for another node":      {existing: live("n", "live-uid", ownedBy("workers"), annotated(v1alpha1.AnnotationNodeName, "m")), blocked: true},
		"P9 our own, whose step is over":    {existing: live("n", "live-uid", ownedBy("workers"), annotated(v1alpha1.AnnotationTimedOut, "2026-01-01T00:00:00Z")), blocked: true, unseen: true},
		"P9 our own, of another template":   {existing: live("n", "live-uid", ownedBy("workers"), annotated(v1alpha1.AnnotationTemplateName, "another")), blocked: true, unseen: true},
		"P8 our own, of this template":      {existing: live("n", "live-uid", ownedBy("workers"), annotated(v1alpha1.AnnotationTemplateName, "reboot")), created: true, unseen: true},
		"P9 our own, but still going": {existing: live("n", "live-uid", ownedBy("workers"), func(u *unstructured.Unstructured) {
			u.SetDeletionTimestamp(new(metav1.NewTime(epoch)))
		}), unseen: true},
		"11.4 foreign and going": {existing: live("n", "live-uid", func(u *unstructured.Unstructured) {
			u.SetDeletionTimestamp(new(metav1.NewTime(epoch)))
		}), blocked: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.existing.SetResourceVersion("6")
			th := newTestExecutor(tc.existing)
			outcome := th.create(t)
			require.NoError(t, outcome.Err, "11.4: this is no error")
			require.Equal(t, tc.created, outcome.NewCR() != nil)
			require.Equal(t, tc.blocked, outcome.Blocker() != nil)
			for _, cr := range []*object.CR{outcome.NewCR(), outcome.Blocker()} {
				if cr != nil {
					require.Equal(t, types.UID("live-uid"), cr.UID, "11.6: the one that lives")
				}
			}
			require.Equal(t, []string{"create n"}, th.writes(), "11.4: it is not touched")
			if tc.unseen {
				require.Equal(t, []string{"rebootremediations.example.com 6"}, th.written, "14.9: its lease would be released")
			} else {
				require.Empty(t, th.written)
			}
		})
	}
}

func TestExecuteCreateNamesakeUnreadable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want remediation.Result
	}{
		"P5 it cannot be read":   {err: errServer, want: remediation.Unknown},
		"P5 it must not be read": {err: apierrors.NewForbidden(crResource.GroupResource(), "n", nil), want: remediation.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor(live("n", "live-uid"))
			th.react("get", "", tc.err)
			outcome := th.create(t)
			require.Error(t, outcome.Err, "the attempt is repeated")
			require.Equal(t, v1alpha1.DecidedCreateFailed, outcome.Reason)
			outcome.Err, outcome.Reason = nil, ""
			require.Equal(t, remediation.Outcome{Result: cmp.Or(tc.want, remediation.Failed)}, outcome)
		})
	}
}

// TestExecuteCreateGoneNamesake: to lose a race for the name is no failure.
func TestExecuteCreateGoneNamesake(t *testing.T) {
	t.Parallel()
	th := newTestExecutor(live("n", "live-uid"))
	th.react("get", "", apierrors.NewNotFound(crResource.GroupResource(), "n"))
	require.Equal(t, remediation.Outcome{Result: remediation.StillDeleting}, th.create(t), "P9: the next sync tries again")
}

// TestExecuteCreateKnownCR: the CR of an earlier step is not taken for that of a later
// one, although both have the name (P9).
func TestExecuteCreateKnownCR(t *testing.T) {
	t.Parallel()
	th := newTestExecutor(live("n", "n-uid", ownedBy("workers"), annotated(v1alpha1.AnnotationTemplateName, "reboot")))
	plan := remediation.NodePlan{
		Node:    new(sick("n", cr("n", from("reboot")))),
		Actions: []remediation.Action{remediation.Confirm{}, remediation.Create{Object: rendered(sick("n"), reboot())}},
	}
	outcome := th.run(t.Context(), plan)
	require.NoError(t, outcome.Err)
	require.Nil(t, outcome.NewCR())
	require.Equal(t, types.UID("n-uid"), outcome.Blocker().UID)
}

// TestExecuteConfirm: without the live look nothing ends that cannot begin again.
func TestExecuteConfirm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refusal v1alpha1.DecisionReason
		err     error
		want    remediation.Outcome
	}{
		"13.3 it has recovered":         {refusal: v1alpha1.DecidedRecovering, want: remediation.Outcome{Result: remediation.Recovered, Reason: v1alpha1.DecidedRecovering}},
		"13.3 15.1 it was excluded":     {refusal: v1alpha1.DecidedExcluded, want: remediation.Outcome{Result: remediation.Refused, Reason: v1alpha1.DecidedExcluded}},
		"P5 the Node could not be read": {err: errServer, want: remediation.Outcome{Result: remediation.Failed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor(live("n", "n-uid"))
			th.refusal, th.nodeErr = tc.refusal, tc.err
			outcome := th.run(t.Context(), actions(remediation.Confirm{}, remediation.MarkTimedOut{CR: cr("n"), At: epoch, EndsStep: true}, remediation.ReleaseLease{Lease: held(ours, epoch)}))
			if errors.Is(tc.err, errServer) {
				require.ErrorIs(t, outcome.Err, errServer)
				require.Equal(t, v1alpha1.DecidedUpdateFailed, outcome.Reason)
				outcome.Err, outcome.Reason = nil, ""
			}
			require.Equal(t, tc.want, outcome)
			require.Empty(t, th.writes())
			require.Empty(t, th.kube.Actions())
		})
	}
}

func TestExecuteDelete(t *testing.T) {
	t.Parallel()
	notFound := apierrors.NewNotFound(crResource.GroupResource(), "n")
	conflict := apierrors.NewConflict(crResource.GroupResource(), "n", errors.New("the UID in the precondition does not match"))
	tests := map[string]struct {
		err           error
		deleted, gone bool
	}{
		"16.1 requested":   {deleted: true},
		"16.1 it was gone": {err: notFound, gone: true},
		"P9 it was gone, and another of that name came": {err: conflict, gone: true},
		"P5 it failed":       {err: errServer},
		"P5 it is forbidden": {err: apierrors.NewForbidden(crResource.GroupResource(), "n", nil)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor(live("n", "n-uid"))
			if tc.err != nil {
				th.react("delete", "", tc.err)
			}
			own := cr("n")
			outcome := th.run(t.Context(), actions(remediation.Delete{CR: own}, remediation.ReleaseLease{Lease: held(ours, epoch)}))

			require.Equal(t, tc.deleted || tc.gone, len(th.kube.Actions()) == 1, "14.9: the lease stays as long as a CR is left")
			if tc.deleted || tc.gone {
				require.NoError(t, outcome.Err)
			} else {
				require.ErrorIs(t, outcome.Err, tc.err)
			}
			require.Equal(t, tc.deleted, len(outcome.Deleted) == 1 && outcome.Deleted[0] == own, "16.1: RemediationRemoved for requests that were issued only")
			require.Equal(t, tc.gone, len(outcome.Gone) == 1 && outcome.Gone[0] == own)
			require.Len(t, th.client.Actions(), 1)
			request := th.client.Actions()[0].(clienttesting.DeleteActionImpl)
			require.Equal(t, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("n-uid"))}}, request.GetDeleteOptions(), "16.1: bound to the uid")
			require.Equal(t, testNamespace, request.GetNamespace())
		})
	}
}

// TestExecuteIsolatesErrors has three CRs. The middle one cannot be deleted.
func TestExecuteIsolatesErrors(t *testing.T) {
	t.Parallel()
	th := newTestExecutor(live("a", "a-uid"), live("b", "b-uid"), live("c", "c-uid"))
	th.react("delete", "b", errServer)
	a, b, c := cr("a"), cr("b"), cr("c")
	outcome := th.run(t.Context(), actions(remediation.Delete{CR: a}, remediation.Delete{CR: b}, remediation.Delete{CR: c}, remediation.Delete{CR: cr("d", ofKind("Unserved"))}))
	require.Equal(t, []*object.CR{a, c}, outcome.Deleted, "P1")
	require.ErrorIs(t, outcome.Err, errServer)
	require.ErrorContains(t, outcome.Err, "locating Unserved")
	require.Equal(t, []string{"delete a", "delete b", "delete c"}, th.writes())
}

func TestExecuteNothing(t *testing.T) {
	t.Parallel()
	th := newTestExecutor()
	require.Equal(t, remediation.Outcome{}, th.run(t.Context(), actions()))
	require.Empty(t, th.client.Actions(), "P3")
	require.Empty(t, th.looks, "P3")
}

// TestCreatedAt: a create that takes long is over when it returns.
func TestCreatedAt(t *testing.T) {
	t.Parallel()
	th := newTestExecutor()
	now := epoch
	th.Now = func() time.Time { return now }
	th.client.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		now = epoch.Add(20 * time.Second)
		return false, nil, nil
	})
	outcome := th.create(t)
	require.NotNil(t, outcome.NewCR())
	require.Equal(t, epoch.Add(20*time.Second), outcome.CreatedAt, "20.3: the moment when the create returned")
}
