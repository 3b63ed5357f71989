// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestParseChanges: which nodes a flag names, and when.
func TestParseChanges(t *testing.T) {
	t.Parallel()
	for text, tc := range map[string]struct {
		want  []Change
		wrong string
	}{
		"a":            {want: []Change{{Node: "a"}}},
		"a,b@90s":      {want: []Change{{"a", 90 * time.Second}, {"b", 90 * time.Second}}},
		"a, ,b @2m":    {want: []Change{{"a", 2 * time.Minute}, {"b", 2 * time.Minute}}},
		"a@soon":       {wrong: "soon"},
		"a@-1s":        {wrong: "-1s"},
		"a@1s@2s":      {wrong: "1s@2s"},
		"":             {},
		"@5m":          {},
		"node-1.x@0":   {want: []Change{{Node: "node-1.x"}}},
		"a@1000000000": {wrong: "1000000000"},
	} {
		changes, wrong := ParseChanges(text)
		require.Equal(t, tc.want, changes, text)
		require.Equal(t, tc.wrong, wrong, text)
	}
}

// TestResume: what the status of a NodeHealthCheck has goes on, also with a new spec.
func TestResume(t *testing.T) {
	t.Parallel()
	nhc := newNHC("workers", steps(10*time.Minute, "Reboot", "Fence"))
	nhc.UID = "uid"
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(epoch.Add(-ago)) }
	nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "a", Remediations: []v1alpha1.Remediation{{
		Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootRemediation", Namespace: "remediators", Name: "a", UID: "1"},
		Started:  at(4 * time.Minute), TemplateName: "default",
	}}}}
	all := nodes("a", "b", "c")
	all[0].Status.Conditions[0].Status, all[0].Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, at(5*time.Minute)
	in := &Input{Checks: []*v1alpha1.NodeHealthCheck{nhc}, Nodes: all, Start: epoch, Duration: time.Hour}
	require.Equal(t, []string{
		"0s a remediation runs: as its status says",
		"0s a is unhealthy: Ready=Unknown for 5m0s",
		"6m0s a step times out: step 1 of 2, after 10m0s",
		"6m0s a next step begins: step 2 of 2: FenceRemediationTemplate remediators/default",
		"16m0s a step times out: step 2 of 2, after 10m0s",
		"16m0s a no step is left: NoTemplateLeft: All 2 steps are over and the node is still unhealthy",
	}, told(Run(in)))
	in.RepairAfter = 5 * time.Minute
	require.Equal(t, []string{
		"0s a remediation runs: as its status says",
		"0s a is unhealthy: Ready=Unknown for 5m0s",
		"1m0s a recovers: repaired 5m0s after the remediation object was created",
		"1m0s a remediation ends: healthy; after 5m0s",
	}, told(Run(in)))
	all[0] = node("a", nil)
	require.Equal(t, []string{"0s a remediation runs: as its status says", "0s a remediation ends: healthy; after 4m0s"}, told(Run(in)))
}

// TestLeftover: the CR of a node that does not exist any more is deleted.
func TestLeftover(t *testing.T) {
	t.Parallel()
	nhc := newNHC("workers")
	nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "gone", Remediations: []v1alpha1.Remediation{{
		Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootRemediation", Namespace: "remediators", Name: "gone", UID: "1"},
		Started:  metav1.NewTime(epoch.Add(-time.Minute)), TemplateName: "default",
	}}}}
	result := Run(&Input{Checks: []*v1alpha1.NodeHealthCheck{nhc}, Nodes: nodes("a"), Start: epoch, Duration: time.Hour, RepairAfter: time.Minute})
	require.Empty(t, result.Summary.StillRemediated)
	require.Equal(t, Ends, result.Timeline[len(result.Timeline)-1].What)
}

// TestRecover: any condition that a rule is about becomes harmless, and the input stays as it is.
func TestRecover(t *testing.T) {
	t.Parallel()
	all := nodes("a")
	all[0].Status.Conditions = append(all[0].Status.Conditions, corev1.NodeCondition{Type: "Broken", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch)})
	nhc := newNHC("workers", func(nhc *v1alpha1.NodeHealthCheck) {
		for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown} {
			nhc.Spec.UnhealthyConditions = append(nhc.Spec.UnhealthyConditions, v1alpha1.UnhealthyCondition{Type: "Broken", Status: status, Duration: metav1.Duration{Duration: time.Minute}})
		}
	})
	before := all[0].DeepCopy()
	result := Run(&Input{Checks: []*v1alpha1.NodeHealthCheck{nhc}, Nodes: all, Start: epoch, Duration: time.Hour, Fail: fail(0, "a", "unknown"), Recover: fail(0, "unknown"), RepairAfter: 2 * time.Minute})
	require.Equal(t, []string{
		"0s a fails: Ready=Unknown",
		"1m0s a is unhealthy: Ready=Unknown for 1m0s",
		"1m0s a remediation begins: RebootRemediationTemplate remediators/default",
		"3m0s a recovers: repaired 2m0s after the remediation object was created",
		"3m0s a remediation ends: healthy; after 2m0s",
	}, told(result))
	require.Equal(t, before, all[0])
}

// TestPaused: O32 the reason of a wait stands once.
func TestPaused(t *testing.T) {
	t.Parallel()
	nhc := newNHC("workers", func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.PauseRequests = []string{"freeze"} })
	result := Run(&Input{Checks: []*v1alpha1.NodeHealthCheck{nhc}, Nodes: nodes("a"), Start: epoch, Duration: time.Hour, Fail: fail(0, "a")})
	require.Equal(t, []string{"0s a fails: Ready=Unknown", "1m0s a is unhealthy: Ready=Unknown for 1m0s", "1m0s a waits: Paused: freeze"}, told(result))
}

// TestStorm: a storm begins with the remediations, keeps further nodes waiting, and ends.
func TestStorm(t *testing.T) {
	t.Parallel()
	nhc := newNHC("workers", func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Spec.MaxUnhealthy, nhc.Spec.StormRecoveryThreshold = new(intstr.FromInt32(3)), new(int32(1))
	})
	in := &Input{Checks: []*v1alpha1.NodeHealthCheck{nhc}, Nodes: nodes("a", "b", "c", "d", "e"), Start: epoch, Duration: time.Hour, RepairAfter: 10 * time.Minute}
	in.Fail, in.Recover = append(fail(0, "a", "b", "c"), fail(2*time.Minute, "d")...), fail(5*time.Minute, "c")
	require.Equal(t, []string{
		"0s a b c fails: Ready=Unknown",
		"1m0s a b c is unhealthy: Ready=Unknown for 1m0s",
		"1m0s a b c remediation begins: RebootRemediationTemplate remediators/default",
		"1m0s storm begins: 3 of 5 nodes are not healthy",
		"2m0s d fails: Ready=Unknown",
		"3m0s d is unhealthy: Ready=Unknown for 1m0s",
		"3m0s d waits: GateClosed: 1 of 5 nodes are healthy, at least 2 have to be",
		"5m0s c recovers: --recover",
		"5m0s c remediation ends: healthy; after 4m0s",
		"5m0s d waits: StormActive: Storm recovery is active while 3 of 5 nodes are not healthy",
		"11m0s a b recovers: repaired 10m0s after the remediation object was created",
		"11m0s a b remediation ends: healthy; after 10m0s",
		"11m0s storm ends: 1 of 5 nodes are not healthy",
		"11m0s d remediation begins: RebootRemediationTemplate remediators/default",
		"21m0s d recovers: repaired 10m0s after the remediation object was created",
		"21m0s d remediation ends: healthy; after 10m0s",
	}, told(Run(in)))
}

// TestBounds: a simulation ends, however much happens in it.
func TestBounds(t *testing.T) {
	t.Parallel()
	in := &Input{Checks: []*v1alpha1.NodeHealthCheck{newNHC("workers")}, Nodes: nodes("a", "b"), Start: epoch, Duration: 1000 * time.Hour}
	for i := range maxInstants + 10 {
		in.Fail = append(in.Fail, Change{Node: "a", After: time.Duration(i) * time.Second})
	}
	in.Recover = fail(0, "b")
	result := Run(in)
	require.Less(t, result.Duration.Duration, in.Duration)
	require.Equal(t, []string{"So much happens that the simulation was stopped after " + result.Duration.Duration.String() + "."}, result.Notes)

	w := newWorld(&Input{Checks: in.Checks, Nodes: in.Nodes, Start: epoch})
	w.planned = maxPlans
	require.Equal(t, epoch, w.run(epoch, epoch.Add(time.Hour), maxInstants))
}

// TestNotes: what can have no effect is said.
func TestNotes(t *testing.T) {
	t.Parallel()
	nhc := newNHC("infra", func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Spec.Selector.MatchLabels = map[string]string{"role": "infra"}
		nhc.Spec.UnhealthyConditions[0].Status = corev1.ConditionFalse
	})
	budget := &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "machines"}, Spec: nhcv1alpha1.RemediationBudgetSpec{
		MachineSelector: &nhcv1alpha1.BudgetMachineSelector{Namespace: "machines"}, MaxConcurrent: new(intstr.FromInt32(0)),
	}}
	in := &Input{Checks: []*v1alpha1.NodeHealthCheck{nhc}, Budgets: []*nhcv1alpha1.RemediationBudget{budget}, Nodes: nodes("a", "b"), Start: epoch, Duration: time.Hour, Fail: fail(0, "a", "a")}
	result := Run(in)
	require.Equal(t, []string{
		"No NodeHealthCheck selects node a.",
		"NodeHealthCheck infra does not look at Ready=Unknown, which is how nodes fail here.",
		"RemediationBudget machines counts Machines, which are not simulated: it limits nothing here.",
	}, result.Notes)
	require.Zero(t, result.Nodes)
	in.Fail = nil
	require.Empty(t, Run(in).Timeline)
}
