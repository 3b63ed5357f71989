// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

var now = time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC)

func ago(age time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-age))) }

func node(name string, conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "a"}}, Status: corev1.NodeStatus{Conditions: conditions}}
}

func ready(status corev1.ConditionStatus, age time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: *ago(age)}
}

func check(unhealthy ...v1alpha1.UnhealthyNode) *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector:            metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
			UnhealthyConditions: []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Duration: metav1.Duration{Duration: 5 * time.Minute}}},
		},
		Status: v1alpha1.NodeHealthCheckStatus{UnhealthyNodes: unhealthy},
	}
}

// TestNext: which nodes are next, the first one first (spec 7.2, 7.3).
func TestNext(t *testing.T) {
	t.Parallel()
	other := node("other", ready(corev1.ConditionFalse, time.Minute))
	other.Labels = nil
	again := listed(v1alpha1.DecidedSoonUnhealthy, "")
	again.Name, again.Remediations, again.Decision.NextCheckTime = "again", make([]v1alpha1.Remediation, 1), ago(-3*time.Minute)
	snapshot := &Snapshot{
		NodeHealthChecks: []*v1alpha1.NodeHealthCheck{check(v1alpha1.UnhealthyNode{Name: "listed"}, again)},
		Nodes: []*corev1.Node{
			node("never", corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse}),
			node("later", ready(corev1.ConditionFalse, time.Minute)), node("soon", ready(corev1.ConditionFalse, 4*time.Minute)),
			node("well", ready(corev1.ConditionTrue, time.Hour)), node("listed", ready(corev1.ConditionFalse, time.Hour)), other,
			node("unlisted", ready(corev1.ConditionFalse, 6*time.Minute)), node("again", ready(corev1.ConditionFalse, 2*time.Minute)),
			node("terminating", ready(corev1.ConditionFalse, 3*time.Minute), corev1.NodeCondition{Type: "Terminating"}),
		},
	}
	names := func() (names []string) {
		for _, next := range NewOverview(snapshot, now).NodeHealthChecks[0].Next {
			names = append(names, next.Name)
		}
		return names
	}
	require.Equal(t, []string{"unlisted", "soon", "terminating", "again", "later", "never"}, names())
	next := NewOverview(snapshot, now).NodeHealthChecks[0].Next
	require.Equal(t, now.Add(time.Minute), next[1].Unhealthy.Time)
	require.Equal(t, "Ready=False", next[1].Condition)
	require.True(t, next[3].Remediating)
	require.Nil(t, next[5].Unhealthy)

	snapshot.MachineHealthChecks = []*machinev1beta1.MachineHealthCheck{{}}
	require.NotContains(t, names(), "terminating", "7.7")
	snapshot.NodeHealthChecks[0].Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Sideways"}}
	require.Empty(t, names(), "an invalid selector selects nothing")
}

// TestGate: the numbers are those of the controller (spec 8).
func TestGate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		min, max          string
		observed, healthy int32
		want              Gate
	}{
		"open":                 {max: "40%", observed: 10, healthy: 7, want: Gate{Open: true, NotHealthy: 3, MaxNotHealthy: 4}},
		"closed":               {min: "51%", observed: 10, healthy: 5, want: Gate{NotHealthy: 5, MaxNotHealthy: 4}},
		"more than there are":  {min: "5", observed: 3, healthy: 3, want: Gate{MaxNotHealthy: -2}},
		"all may be not there": {max: "20", observed: 3, healthy: 0, want: Gate{Open: true, NotHealthy: 3, MaxNotHealthy: 3}},
		"FR-301 no node, and minHealthy is a percentage": {min: "51%", want: Gate{NoNodes: true}},
		"FR-301 no node, and minHealthy is a number":     {min: "2", want: Gate{NoNodes: true, MaxNotHealthy: -2}},
		"a spec that is broken":                          {observed: 3, healthy: 3, want: Gate{}},
	} {
		nhc := check()
		if tc.min != "" {
			nhc.Spec.MinHealthy = new(intstr.Parse(tc.min))
		}
		if tc.max != "" {
			nhc.Spec.MaxUnhealthy = new(intstr.Parse(tc.max))
		}
		nhc.Status.ObservedNodes, nhc.Status.HealthyNodes = &tc.observed, &tc.healthy
		require.Equal(t, &tc.want, newCheck(nhc, &Snapshot{}, now).Gate, name)
	}
	require.Nil(t, newCheck(check(), &Snapshot{}, now).Gate, "nothing is counted")
}

func TestSelect(t *testing.T) {
	t.Parallel()
	snapshot := &Snapshot{
		NodeHealthChecks:    []*v1alpha1.NodeHealthCheck{check()},
		MachineHealthChecks: []*machinev1beta1.MachineHealthCheck{{ObjectMeta: metav1.ObjectMeta{Namespace: "m", Name: "a"}}},
		Budgets:             []*nhcv1alpha1.RemediationBudget{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}},
	}
	overview := NewOverview(snapshot, now)
	require.False(t, overview.Select("c"))
	require.Equal(t, []string{"a", "m/a", "a", "b"}, overview.Names(), "nothing is left out for a name that does not exist")
	require.True(t, overview.Select("a"))
	require.Equal(t, []string{"a", "a"}, overview.Names())
	overview = NewOverview(snapshot, now)
	require.True(t, overview.Select("m/a"))
	require.Equal(t, []string{"m/a"}, overview.Names())
}

// TestStopped: while everything is stopped, the first line says so, and no gate looks open.
func TestStopped(t *testing.T) {
	t.Parallel()
	nhc := check()
	nhc.Status.ObservedNodes, nhc.Status.HealthyNodes, nhc.Status.Phase = new(int32(3)), new(int32(3)), v1alpha1.PhaseEnabled
	snapshot := &Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{nhc}, Budgets: []*nhcv1alpha1.RemediationBudget{{
		ObjectMeta: metav1.ObjectMeta{Name: "brake"},
		Spec:       nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(0)), Reason: "Incident 4711."},
	}}}
	overview := NewOverview(snapshot, now)
	const stopped = "RemediationBudget brake stops everything: no remediation and no next step begins. Incident 4711. It goes on with kubectl delete remediationbudget brake"
	require.Equal(t, "stopped", GateOf(&overview.NodeHealthChecks[0]).Text)
	require.Equal(t, Cell{Text: "Stopped", Style: Bad}, StateOf(&overview.NodeHealthChecks[0]))
	require.Equal(t, Cell{Text: stopped, Style: Bad}, summary(NewExplanation("node-1", &Snapshot{NodeHealthChecks: snapshot.NodeHealthChecks, Budgets: snapshot.Budgets, Nodes: []*corev1.Node{node("node-1")}}, &Details{}, now))[1][0])
	require.True(t, strings.HasPrefix(strings.Join(strings.Fields(printedOverview(overview)), " "), stopped+" NodeHealthChecks"))
	require.Equal(t, 1, strings.Count(printedOverview(overview), "RemediationBudget brake"))
	snapshot.Budgets[0].Spec.MaxConcurrent = new(intstr.FromInt32(1))
	require.NotEqual(t, "stopped", GateOf(&NewOverview(snapshot, now).NodeHealthChecks[0]).Text)
}

func TestHistoryFilter(t *testing.T) {
	t.Parallel()
	nhc := check()
	nhc.Status.RemediationHistory = []v1alpha1.Episode{
		{Node: "open", Detected: *ago(30 * 24 * time.Hour)},
		{Node: "old", Detected: *ago(9 * 24 * time.Hour), Finished: ago(8 * 24 * time.Hour), Outcome: v1alpha1.OutcomeRecovered},
		{Node: "long", Detected: *ago(9 * 24 * time.Hour), Finished: ago(time.Hour), Outcome: v1alpha1.OutcomeRecovered},
		{Node: "cancelled", Detected: *ago(9 * 24 * time.Hour), Outcome: v1alpha1.OutcomeCancelled, Steps: []v1alpha1.EpisodeStep{{Ended: ago(2 * time.Hour)}}},
	}
	mhc := &machinev1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "m", Name: "b"}}
	mhc.Status.RemediationHistory = []machinev1beta1.Remediation{{TargetKind: "Node", TargetName: "node", Machine: "machine", Detected: *ago(time.Hour)}}
	snapshot := &Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{nhc}, MachineHealthChecks: []*machinev1beta1.MachineHealthCheck{mhc}}
	for name, tc := range map[string]struct {
		filter Filter
		want   []string
	}{
		"everything, the newest first": {want: []string{"node", "cancelled", "long", "old", "open"}},
		"what had not ended before":    {filter: Filter{Since: now.Add(-7 * 24 * time.Hour)}, want: []string{"node", "cancelled", "long", "open"}},
		"one node":                     {filter: Filter{Node: "old"}, want: []string{"old"}},
		"one Machine":                  {filter: Filter{Node: "machine"}, want: []string{"node"}},
		"one check":                    {filter: Filter{Check: "m/b"}, want: []string{"node"}},
	} {
		var names []string
		for _, episode := range NewHistory(snapshot, tc.filter, now).Episodes {
			names = append(names, episode.Target())
		}
		require.Equal(t, tc.want, names, name)
	}
}

// TestMachineOutcome: how a remediation of a Machine ended is read from its times.
func TestMachineOutcome(t *testing.T) {
	t.Parallel()
	for want, remediation := range map[v1alpha1.EpisodeOutcome]machinev1beta1.Remediation{
		"":                        {},
		v1alpha1.OutcomeReplaced:  {Finished: ago(0), Replacement: "b"},
		v1alpha1.OutcomeRecovered: {Finished: ago(0)},
		EndUnknown:                {Closed: ago(0), Replacement: "b"},
	} {
		require.Equal(t, want, newMachineEpisode("m/a", &remediation).Outcome)
	}
}

// TestStateOf: P13 the state of a check is the worst of what holds.
func TestStateOf(t *testing.T) {
	t.Parallel()
	open, closed := &Gate{Open: true}, &Gate{}
	for _, tc := range []struct {
		want  Cell
		check Check
	}{
		{Cell{Text: "not seen", Style: Bad}, Check{}},
		{Cell{Text: "Disabled", Style: Bad}, Check{Phase: v1alpha1.PhaseDisabled, Stopped: "x", Gate: closed}},
		{Cell{Text: "Stopped", Style: Bad}, Check{Phase: v1alpha1.PhasePaused, Stopped: "x"}},
		{Cell{Text: "Gate closed", Style: Bad}, Check{Phase: v1alpha1.PhaseEnabled, Gate: closed, Storm: &Storm{}}},
		{Cell{Text: "Storm", Style: Warning}, Check{Phase: v1alpha1.PhaseRemediating, Gate: open, Storm: &Storm{}}},
		{Cell{Text: "Paused", Style: Warning}, Check{Phase: v1alpha1.PhasePaused, Gate: closed, Storm: &Storm{}}},
		{Cell{Text: "Remediating", Style: Warning}, Check{Phase: v1alpha1.PhaseRemediating, Gate: open}},
		{Cell{Text: "Enabled", Style: Good}, Check{Phase: v1alpha1.PhaseEnabled, Gate: open}},
	} {
		require.Equal(t, tc.want, StateOf(&tc.check))
	}
}
