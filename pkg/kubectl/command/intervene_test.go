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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// intervener returns an Intervener on these objects, and the fake that records what it sends.
func intervener(dryRun DryRun, objects ...runtime.Object) (*Intervener, *fake.Clientset) {
	client := fake.NewSimpleClientset(objects...)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "n"}}
	return &Intervener{Clients: &cluster.Clients{NHC: client, Kube: kubefake.NewClientset(node)}, DryRun: dryRun}, client
}

func paused(requests ...string) *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"},
		Spec:       v1alpha1.NodeHealthCheckSpec{PauseRequests: requests},
	}
}

func budget(change ...func(*nhcv1alpha1.RemediationBudgetSpec)) *nhcv1alpha1.RemediationBudget {
	b := &nhcv1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: StopBudget, UID: "u", ResourceVersion: "7"},
		Spec:       nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(0)), Reason: "r"},
	}
	for _, c := range change {
		c(&b.Spec)
	}
	return b
}

// writes returns the verbs of the requests that change something.
func writes(client *clienttesting.Fake) (verbs []string) {
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
		require.Equal(t, tc.want, view.StopsAll(budget(tc.change)), name)
	}
}

// TestStopsOfOthers: each reason has a budget of its own, and another budget with the name is neither changed
// nor deleted.
func TestStopsOfOthers(t *testing.T) {
	t.Parallel()
	i, client := intervener(DryRunNone, budget(func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MaxConcurrent = new(intstr.FromInt32(3)) }))
	for number, tc := range []struct{ reason, name, text string }{
		{"incident 1", "stop-all-2", "created. No health check begins a remediation. Remediations that run continue"},
		{"incident 2", "stop-all-3", `created. No health check begins a remediation. Remediations that run continue. Everything is also stopped for "incident 1"`},
		{"incident 1", "stop-all-2", "is there already, for this reason. No health check begins a remediation. Remediations that run continue"},
	} {
		result, err := i.StopAll(t.Context(), tc.reason)
		require.NoError(t, err)
		require.Equal(t, tc.name, result.Name, number)
		require.Equal(t, tc.text, result.Text, number)
	}
	_, err := i.ResumeAll(t.Context(), "", false)
	require.EqualError(t, err, `Everything is stopped for 2 reasons: name one with --reason, or use --all-reasons: "incident 1", "incident 2".`)
	_, err = i.ResumeAll(t.Context(), "incident", false)
	require.EqualError(t, err, `Nothing is stopped for this reason. What is stopped is for "incident 1", "incident 2": name that with --reason.`)
	require.Equal(t, []string{"create", "create"}, writes(&client.Fake))
	results, err := i.ResumeAll(t.Context(), "incident 2", false)
	require.NoError(t, err)
	require.Equal(t, "stop-all-3", results[0].Name)
	require.Equal(t, `deleted. It stopped everything for the reason "incident 2". Everything is still stopped for "incident 1"`, results[0].Text)
	results, err = i.ResumeAll(t.Context(), "", false)
	require.NoError(t, err)
	require.Equal(t, "stop-all-2", results[0].Name)
	results, err = i.ResumeAll(t.Context(), "", true)
	require.NoError(t, err)
	require.False(t, results[0].Changed)
	require.Equal(t, []string{"create", "create", "delete", "delete"}, writes(&client.Fake), "the other budget stays")

	brake := budget()
	brake.Name = "brake"
	require.NoError(t, client.Tracker().Add(brake))
	_, err = i.ResumeAll(t.Context(), "", false)
	require.EqualError(t, err, "stop-all has stopped nothing, but other budgets stop everything: kubectl delete remediationbudgets brake.")
}

// TestConflict: a request that somebody adds meanwhile is not lost.
func TestConflict(t *testing.T) {
	t.Parallel()
	i, client := intervener(DryRunNone, paused("first"))
	refused := false
	client.PrependReactor("patch", v1alpha1.Plural, func(action clienttesting.Action) (bool, runtime.Object, error) {
		var sent v1alpha1.NodeHealthCheck
		require.NoError(t, json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &sent))
		require.EqualValues(t, "u", sent.UID)
		if refused {
			require.Equal(t, "8", sent.ResourceVersion)
			require.Equal(t, []string{"first", "second", "mine"}, sent.Spec.PauseRequests)
			return true, &sent, nil
		}
		refused = true
		require.Equal(t, "7", sent.ResourceVersion)
		current := paused("first", "second")
		current.ResourceVersion = "8"
		require.NoError(t, client.Tracker().Update(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural), current, ""))
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), "a", nil)
	})
	result, err := i.Pause(t.Context(), "a", "mine")
	require.NoError(t, err)
	require.True(t, result.Changed)
	require.Equal(t, []string{"patch", "patch"}, writes(&client.Fake))
}

// TestStopRace: who loses against another stop finds it.
func TestStopRace(t *testing.T) {
	t.Parallel()
	i, client := intervener(DryRunNone)
	client.PrependReactor("create", nhcv1alpha1.BudgetPlural, func(action clienttesting.Action) (bool, runtime.Object, error) {
		require.NoError(t, client.Tracker().Add(budget()))
		return true, nil, apierrors.NewAlreadyExists(action.GetResource().GroupResource(), StopBudget)
	})
	result, err := i.StopAll(t.Context(), "r")
	require.NoError(t, err)
	require.False(t, result.Changed)
	require.Contains(t, result.Text, `is there already, for this reason`)
}

// TestClientDryRun: nothing is sent, and the object is as it would be.
func TestClientDryRun(t *testing.T) {
	t.Parallel()
	delayed := paused("x")
	delayed.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "node", HealthyDelayed: new(true), ConditionsHealthyTimestamp: new(metav1.Now())}}
	i, client := intervener(DryRunClient, delayed)
	results := map[string]Result{}
	do := func(name string, result Result, err error) {
		require.NoError(t, err, name)
		require.True(t, result.Changed, name)
		results[name] = result
	}
	result, err := i.Pause(t.Context(), "a", "mine")
	do("pause", result, err)
	result, err = i.StopAll(t.Context(), "")
	do("stop", result, err)
	result, err = i.Hold(t.Context(), "node")
	do("hold", result, err)
	result, err = i.ConfirmHealthy(t.Context(), "node")
	do("confirm", result, err)
	require.Equal(t, []string{"x", "mine"}, results["pause"].Object.(*v1alpha1.NodeHealthCheck).Spec.PauseRequests)
	require.True(t, view.StopsAll(results["stop"].Object.(*nhcv1alpha1.RemediationBudget)))
	require.Equal(t, "true", results["hold"].Object.(*corev1.Node).Labels[v1alpha1.LabelExclude])
	require.Contains(t, results["confirm"].Object.(*corev1.Node).Annotations, v1alpha1.AnnotationManuallyConfirmedHealthy)
	require.Empty(t, writes(&client.Fake))
	require.Empty(t, writes(&i.Kube.(*kubefake.Clientset).Fake))
}

// TestNodePatch: the patch has one key, and the uid of the node.
func TestNodePatch(t *testing.T) {
	t.Parallel()
	i, _ := intervener(DryRunNone)
	_, err := i.Hold(t.Context(), "node")
	require.NoError(t, err)
	actions := i.Kube.(*kubefake.Clientset).Actions()
	sent := actions[len(actions)-1].(clienttesting.PatchAction).GetPatch()
	require.JSONEq(t, `{"metadata":{"uid":"n","labels":{"remediation.medik8s.io/exclude-from-remediation":"true"}}}`, string(sent))
}
