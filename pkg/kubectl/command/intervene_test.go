// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// changing returns a change on these objects, and the fake that records what it sends.
func changing(t *testing.T, objects ...runtime.Object) (*change, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.Install(scheme))
	require.NoError(t, nhcv1alpha1.Install(scheme))
	require.NoError(t, machinev1beta1.Install(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	client := dynamicfake.NewSimpleDynamicClient(scheme, objects...)
	var ours []runtime.Object
	for _, object := range objects {
		if _, is := object.(*corev1.Node); !is {
			ours = append(ours, object)
		}
	}
	clients := &cluster.Clients{NHC: fake.NewSimpleClientset(ours...), Kube: kubefake.NewClientset(), Dynamic: client}
	return &change{root: &root{Environment: Environment{Now: time.Now}}, Clients: clients}, client
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", ResourceVersion: "7"}
}

func paused(requests ...string) *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{ObjectMeta: meta("", "a"), Spec: v1alpha1.NodeHealthCheckSpec{PauseRequests: requests}}
}

func aBudget(change ...func(*nhcv1alpha1.RemediationBudgetSpec)) *nhcv1alpha1.RemediationBudget {
	b := &nhcv1alpha1.RemediationBudget{
		ObjectMeta: meta("", view.PauseBudget),
		Spec:       nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(0)), Reason: "r"},
	}
	for _, c := range change {
		c(&b.Spec)
	}
	return b
}

// stored returns an object of ours as the fake keeps it.
func stored(t *testing.T, object runtime.Object, kind schema.GroupVersionKind) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	kept := &unstructured.Unstructured{Object: fields}
	kept.SetGroupVersionKind(kind)
	return kept
}

// writes returns the verbs of the requests that change something.
func writes(client *dynamicfake.FakeDynamicClient) (verbs []string) {
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

func TestStopsAll(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*nhcv1alpha1.RemediationBudgetSpec)
		want   bool
	}{
		"as it is created":   {func(*nhcv1alpha1.RemediationBudgetSpec) {}, true},
		"in percent":         {func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MaxConcurrent = new(intstr.FromString("0%")) }, true},
		"with more limits":   {func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MaxUnhealthy = new(intstr.FromInt32(3)) }, true},
		"of some nodes":      {func(s *nhcv1alpha1.RemediationBudgetSpec) { s.NodeSelector.MatchLabels = map[string]string{"a": "b"} }, false},
		"of Machines":        {func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MachineSelector = &nhcv1alpha1.BudgetMachineSelector{} }, false},
		"without a selector": {func(s *nhcv1alpha1.RemediationBudgetSpec) { s.NodeSelector = nil }, false},
		"at times":           {func(s *nhcv1alpha1.RemediationBudgetSpec) { s.ActiveDuring = make([]nhcv1alpha1.BudgetSchedule, 1) }, false},
		"that permits one":   {func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MaxConcurrent = new(intstr.FromInt32(1)) }, false},
		"of another limit": {func(s *nhcv1alpha1.RemediationBudgetSpec) {
			s.MaxConcurrent, s.MinInterval = nil, &metav1.Duration{Duration: time.Hour}
		}, false},
		"of a broken percent": {func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MaxConcurrent = new(intstr.FromString("x")) }, false},
	} {
		require.Equal(t, tc.want, budget.Parse(aBudget(tc.change)).StopsAll(), name)
	}
}

// TestScopes: each scope keeps the reasons of several people, and is as before when the last one has gone.
func TestScopes(t *testing.T) {
	t.Parallel()
	workers := paused()
	machines := &machinev1beta1.MachineHealthCheck{ObjectMeta: meta("ns", "m")}
	other := &corev1.Node{ObjectMeta: meta("", "n")}
	other.Labels = map[string]string{"theirs": ""}
	for argument, tc := range map[string]struct {
		target target
		stored string // What is stored of two reasons.
	}{
		"a":         {targetOf("a"), `{"spec":{"pauseRequests":["first","second"]}}`},
		"ns/m":      {targetOf("ns/m"), `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":"first\nsecond"}}}`},
		"node/n":    {targetOf("node/n"), `{"metadata":{"labels":{"theirs":"","remediation.medik8s.io/exclude-from-remediation":"true"},"annotations":{"nhc-controller.io/pause-reason":"first\nsecond"}}}`},
		"--cluster": {theCluster, `{"spec":{"reason":"first\nsecond","maxConcurrent":0,"nodeSelector":{}}}`},
	} {
		c, client := changing(t, workers, machines, other)
		if tc.target.subject == wholeCluster { // The fake gives created objects no version.
			client.PrependReactor("create", nhcv1alpha1.BudgetPlural, func(action clienttesting.Action) (bool, runtime.Object, error) {
				action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).SetResourceVersion("7")
				return false, nil, nil
			})
		}
		does := func(want string, result result, err error) {
			t.Helper()
			require.NoError(t, err, argument)
			require.Equal(t, want, result.text, argument)
		}
		const begun = "is paused: no remediation and no next step begins. What runs goes on"
		result, err := c.resume(t.Context(), tc.target, "")
		does("is not paused", result, err)
		result, err = c.pause(t.Context(), tc.target, "first")
		does(begun, result, err)
		result, err = c.pause(t.Context(), tc.target, "first")
		does("is paused for this reason already", result, err)
		result, err = c.pause(t.Context(), tc.target, "second")
		does(begun, result, err)
		requireHas(t, tc.stored, result.object)
		_, err = c.resume(t.Context(), tc.target, "")
		require.EqualError(t, err, tc.target.String()+` is paused for 2 reasons: name one with --reason: "first", "second".`)
		result, err = c.resume(t.Context(), tc.target, "third")
		does(`is not paused for this reason, but still for "first", "second"`, result, err)
		result, err = c.resume(t.Context(), tc.target, "first")
		does(`is still paused for "second"`, result, err)
		result, err = c.resume(t.Context(), tc.target, "")
		does(`goes on. It was paused for "second"`, result, err)
		result, err = c.resume(t.Context(), tc.target, "")
		does("is not paused", result, err)
		require.Len(t, writes(client), 4, argument)
	}
}

// requireHas requires that an object has these fields, and under metadata no other labels and annotations.
func requireHas(t *testing.T, fields string, object *unstructured.Unstructured) {
	t.Helper()
	var want map[string]any
	require.NoError(t, json.Unmarshal([]byte(fields), &want))
	got := map[string]any{}
	for key, value := range want {
		part := map[string]any{}
		for field := range value.(map[string]any) {
			part[field] = object.Object[key].(map[string]any)[field]
		}
		got[key] = part
	}
	encoded, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, fields, string(encoded))
}

// TestReasonOfSeveralLines: it is one reason.
func TestReasonOfSeveralLines(t *testing.T) {
	t.Parallel()
	options := scope{reason: "disk is replaced,\nask Kim", all: true}
	require.NoError(t, options.check(nil, true))
	require.Equal(t, "disk is replaced, ask Kim", options.reason)
}

// TestLabelWithoutReason: a label that was set by hand is a pause without a reason.
func TestLabelWithoutReason(t *testing.T) {
	t.Parallel()
	labelled := &corev1.Node{ObjectMeta: meta("", "n")}
	labelled.Labels = map[string]string{v1alpha1.LabelExclude: "true"}
	c, _ := changing(t, labelled)
	result, err := c.resume(t.Context(), targetOf("no/n"), "")
	require.NoError(t, err)
	require.Equal(t, "goes on. No reason was given", result.text)
	result, err = c.pause(t.Context(), targetOf("nodes/n"), "mine")
	require.NoError(t, err)
	require.Equal(t, "mine", result.object.GetAnnotations()[v1alpha1.AnnotationPauseReason])
	ineffective := labelled.DeepCopy()
	ineffective.Labels[v1alpha1.LabelExclude] = "yes"
	c, _ = changing(t, ineffective)
	result, err = c.resume(t.Context(), targetOf("node/n"), "")
	require.NoError(t, err)
	require.False(t, result.changed)
}

// TestOtherBudgets: another budget with the name is neither changed nor deleted, and each one that stops everything is named.
func TestOtherBudgets(t *testing.T) {
	t.Parallel()
	theirs := aBudget(func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MaxConcurrent = new(intstr.FromInt32(3)) })
	brake := aBudget(func(s *nhcv1alpha1.RemediationBudgetSpec) { s.Reason = "Maintenance, ask Kim." })
	brake.Name = "brake"
	c, client := changing(t, theirs, brake)
	_, err := c.pause(t.Context(), theCluster, "x")
	require.EqualError(t, err, "There is a RemediationBudget pause-cluster that does not stop everything: give it another name.")
	result, err := c.resume(t.Context(), theCluster, "")
	require.NoError(t, err)
	require.Equal(t, "is not paused", result.text)
	require.Empty(t, writes(client))
	err = c.stops(t.Context())
	require.EqualError(t, err, "RemediationBudget brake still lets nothing begin: Maintenance, ask Kim. To end it: kubectl delete remediationbudget brake")
	require.ErrorAs(t, err, new(found), "the exit code is 1")

	c, _ = changing(t, aBudget())
	c.dryRun = dryRunServer
	require.NoError(t, c.stops(t.Context()), "it is there in a dry run")
	c.dryRun = ""
	require.EqualError(t, c.stops(t.Context()), "RemediationBudget pause-cluster still lets nothing begin: r. To end it: kubectl nhc resume --cluster")
}

// TestConflict: a request that another user adds meanwhile is not lost.
func TestConflict(t *testing.T) {
	t.Parallel()
	c, client := changing(t, paused("first"))
	refused := false
	client.PrependReactor("patch", v1alpha1.Plural, func(action clienttesting.Action) (bool, runtime.Object, error) {
		var sent v1alpha1.NodeHealthCheck
		require.NoError(t, json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &sent))
		if refused {
			require.Equal(t, "8", sent.ResourceVersion)
			require.Equal(t, []string{"first", "second", "mine"}, sent.Spec.PauseRequests)
			return false, nil, nil
		}
		refused = true
		require.Equal(t, "7", sent.ResourceVersion)
		current := paused("first", "second")
		current.ResourceVersion = "8"
		require.NoError(t, client.Tracker().Update(nodeHealthCheck.resource, stored(t, current, v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.Kind)), ""))
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), "a", nil)
	})
	_, err := c.pause(t.Context(), targetOf("a"), "mine")
	require.NoError(t, err)
	require.Equal(t, []string{"patch", "patch"}, writes(client))
}

// TestPauseRace: who loses against another pause of the cluster adds a reason to it.
func TestPauseRace(t *testing.T) {
	t.Parallel()
	c, client := changing(t)
	client.PrependReactor("create", nhcv1alpha1.BudgetPlural, func(action clienttesting.Action) (bool, runtime.Object, error) {
		require.NoError(t, client.Tracker().Add(stored(t, aBudget(), nhcv1alpha1.SchemeGroupVersion.WithKind(nhcv1alpha1.BudgetKind))))
		return true, nil, apierrors.NewAlreadyExists(action.GetResource().GroupResource(), view.PauseBudget)
	})
	result, err := c.pause(t.Context(), theCluster, "r")
	require.NoError(t, err)
	require.False(t, result.changed)
	require.Equal(t, "is paused for this reason already", result.text)
}

// TestTakenIn: a pause of the cluster that no controller has taken in is not in force.
func TestTakenIn(t *testing.T) {
	t.Parallel()
	taken := aBudget()
	taken.Generation, taken.Status.ObservedGeneration = 2, 1
	c, _ := changing(t, taken)
	err := c.takenIn(t.Context())
	require.ErrorContains(t, err, "The pause has no effect yet. No controller is at work")
	require.IsType(t, found{}, err)
	taken.Status.ObservedGeneration = 2
	c, _ = changing(t, taken)
	require.NoError(t, c.takenIn(t.Context()))
}

// TestDryRun: nothing is stored.
func TestDryRun(t *testing.T) {
	t.Parallel()
	delayed := paused("x")
	delayed.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "n", HealthyDelayed: new(true), ConditionsHealthyTimestamp: new(metav1.Now())}}
	c, client := changing(t, delayed, &corev1.Node{ObjectMeta: meta("", "n")})
	c.dryRun = dryRunServer
	for _, do := range []func() (result, error){
		func() (result, error) { return c.pause(t.Context(), targetOf("a"), "mine") },
		func() (result, error) { return c.pause(t.Context(), theCluster, "mine") },
		func() (result, error) { return c.confirm(t.Context(), targetOf("node/n")) },
	} {
		made, err := do()
		require.NoError(t, err)
		require.True(t, made.changed)
		actions := client.Actions()
		switch action := actions[len(actions)-1].(type) {
		case clienttesting.PatchActionImpl:
			require.Equal(t, []string{metav1.DryRunAll}, action.PatchOptions.DryRun)
		case clienttesting.CreateActionImpl:
			require.Equal(t, []string{metav1.DryRunAll}, action.CreateOptions.DryRun)
		default:
			require.Fail(t, "no write", "%v", action)
		}
	}
}
