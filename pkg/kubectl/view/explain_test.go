// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// valid completes a NodeHealthCheck. Five of its ten nodes are healthy.
func valid(nhc *v1alpha1.NodeHealthCheck) *v1alpha1.NodeHealthCheck {
	nhc.Spec.MinHealthy = new(intstr.FromInt32(4))
	nhc.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: "x/v1", Kind: "RebootTemplate", Namespace: "default", Name: "reboot"}
	nhc.Status.ObservedNodes, nhc.Status.HealthyNodes = new(int32(10)), new(int32(5))
	return nhc
}

func listed(reason v1alpha1.DecisionReason, message string) v1alpha1.UnhealthyNode {
	return v1alpha1.UnhealthyNode{Name: "node", Decision: &v1alpha1.Decision{Type: reason.Type(), Reason: reason, Message: message}}
}

// answersOf returns the checks by their answers.
func answersOf(check CheckOfNode) map[string][]v1alpha1.DecisionReason {
	answers := map[string][]v1alpha1.DecisionReason{}
	for _, asked := range check.Asked {
		answers[asked.Answer] = append(answers[asked.Answer], asked.Reason)
	}
	return answers
}

func explained(t *testing.T, nhc *v1alpha1.NodeHealthCheck, node *corev1.Node, others ...*machinev1beta1.MachineHealthCheck) CheckOfNode {
	t.Helper()
	snapshot := &Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{nhc}, MachineHealthChecks: others}
	if node != nil {
		snapshot.Nodes = []*corev1.Node{node}
	}
	explanation := NewExplanation("node", snapshot, &Details{}, now)
	require.NotNil(t, explanation)
	require.Len(t, explanation.Checks, 1)
	return explanation.Checks[0]
}

// TestAsked: checks of the spec and the Node are evaluated now. For checks that only the controller
// knows, its decision counts (spec 5.4).
func TestAsked(t *testing.T) {
	t.Parallel()
	sick := node("node", ready(corev1.ConditionFalse, time.Hour))
	last := []v1alpha1.DecisionReason{v1alpha1.DecidedBudgetExhausted, v1alpha1.DecidedForeignRemediation, v1alpha1.DecidedLeaseTaken}

	answers := answersOf(explained(t, valid(check()), node("node", ready(corev1.ConditionTrue, time.Hour))))
	require.Empty(t, answers[Refused])
	require.Equal(t, last, answers[NotAsked], "no check is asked for a healthy node")

	for reason, passes := range map[v1alpha1.DecisionReason]int{v1alpha1.DecidedBudgetExhausted: 0, v1alpha1.DecidedForeignRemediation: 1, v1alpha1.DecidedLeaseTaken: 2} {
		check := explained(t, valid(check(listed(reason, "somebody else"))), sick)
		answers := answersOf(check)
		require.Equal(t, []v1alpha1.DecisionReason{reason}, answers[Refused])
		require.Equal(t, last[passes+1:], append([]v1alpha1.DecisionReason{}, answers[NotAsked]...))
		i := slices.IndexFunc(check.Asked, func(asked Asked) bool { return asked.Reason == reason })
		require.Equal(t, "somebody else", check.Asked[i].Message)
	}

	nhc := valid(check(listed(v1alpha1.DecidedGateClosed, "")))
	nhc.Spec.MinHealthy, nhc.Spec.PauseRequests = new(intstr.FromInt32(6)), []string{"freeze"}
	held := sick.DeepCopy()
	held.Labels[v1alpha1.LabelExclude] = "true"
	explanation := explained(t, nhc, held)
	require.Equal(t, []v1alpha1.DecisionReason{v1alpha1.DecidedPaused, v1alpha1.DecidedGateClosed, v1alpha1.DecidedExcluded}, answersOf(explanation)[Refused])
	i := slices.IndexFunc(explanation.Asked, func(asked Asked) bool { return asked.Reason == v1alpha1.DecidedGateClosed })
	require.Equal(t, "5 of 10 nodes are healthy, at least 6 have to be", explanation.Asked[i].Message)

	entry := listed(v1alpha1.DecidedStepRunning, "")
	entry.Remediations = make([]v1alpha1.Remediation, 1)
	nhc = valid(check(entry))
	nhc.Status.StormRecoveryActive = new(true)
	answers = answersOf(explained(t, nhc, sick))
	require.Empty(t, answers[Refused])
	require.NotContains(t, answers[Passed], v1alpha1.DecidedStormActive, "next steps pass a storm (spec 9.6)")
	require.Contains(t, answers[NotAsked], v1alpha1.DecidedBudgetExhausted, "but a budget that permits nothing holds them (spec B1.2)")

	nhc = valid(check())
	nhc.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionDisabled, Status: metav1.ConditionTrue, Message: "no template"},
		{Type: v1alpha1.ConditionRemediationAllowed, Status: metav1.ConditionFalse, Reason: string(v1alpha1.DecidedClusterUpgrading)},
	}
	require.Equal(t, []v1alpha1.DecisionReason{v1alpha1.DecidedDisabled, v1alpha1.DecidedClusterUpgrading}, answersOf(explained(t, nhc, sick))[Refused])

	require.Contains(t, answersOf(explained(t, valid(check()), sick, &machinev1beta1.MachineHealthCheck{}))[NotAsked], v1alpha1.DecidedMachineHealthCheck,
		"only the controller knows whose Machine it is")
}

// TestAskedForEveryReason: a reason of any kind, also of a newer controller, has an explanation.
func TestAskedForEveryReason(t *testing.T) {
	t.Parallel()
	reasons := v1alpha1.DecisionReasons()
	reasons["Abducted"] = "Gone"
	for reason := range reasons {
		for _, check := range []*v1alpha1.NodeHealthCheck{check(listed(reason, "")), valid(check(listed(reason, "why")))} {
			check.Spec.Mode = v1alpha1.ModeDryRun
			require.NotEmpty(t, explained(t, check, node("node", ready(corev1.ConditionFalse, time.Hour))).Asked, reason)
			require.Empty(t, explained(t, check, nil).Asked, reason)
		}
	}
}

func TestExplanation(t *testing.T) {
	t.Parallel()
	sick := node("node", ready(corev1.ConditionFalse, 2*time.Minute))
	other := valid(check())
	other.Name, other.Spec.Selector.MatchLabels = "other", map[string]string{"pool": "b"}
	missing := valid(check())
	missing.Name, missing.Spec.Selector = "missing", metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "gpu", Operator: metav1.LabelSelectorOpExists}}}
	snapshot := &Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{valid(check()), missing, other}, Nodes: []*corev1.Node{sick}}
	event := corev1.Event{Reason: "B", LastTimestamp: *ago(time.Minute), Count: 3}
	details := &Details{
		Lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-node"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("maintenance"), RenewTime: new(metav1.NewMicroTime(now.Add(-time.Minute))), LeaseDurationSeconds: new(int32(600)),
		}},
		Events: []corev1.Event{event, {Reason: "A", EventTime: metav1.NewMicroTime(now.Add(-time.Hour))}},
	}
	explanation := NewExplanation("node", snapshot, details, now)
	require.Equal(t, []NotSelected{{"missing", "gpu, and the node does not have the label"}, {"other", `pool=b, and the node has "a"`}}, explanation.Others)
	check := explanation.Checks[0]
	require.Equal(t, "SoonUnhealthy", check.State)
	require.Equal(t, now.Add(3*time.Minute), check.Unhealthy.Time)
	require.Equal(t, []Rule{{Condition: "Ready=False", Duration: "5m0s", Status: "False", Matches: true, Since: ago(2 * time.Minute), Expires: new(metav1.NewTime(now.Add(3 * time.Minute)))}}, check.Rules)
	require.Equal(t, []Step{{Kind: "RebootTemplate", Template: "default/reboot"}}, check.Steps)
	require.Equal(t, &Lease{Name: "node-node", Holder: "maintenance", Valid: true, Ends: new(metav1.NewTime(now.Add(9 * time.Minute)))}, explanation.Lease)
	require.Equal(t, []string{"A", "B"}, []string{explanation.Events[0].Reason, explanation.Events[1].Reason})
	require.EqualValues(t, 3, explanation.Events[1].Count)

	require.Nil(t, NewExplanation("unknown", snapshot, details, now))
	snapshot.NodeHealthChecks[0].Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "gone"}}
	gone := NewExplanation("gone", snapshot, details, now)
	require.True(t, gone.Deleted)
	require.False(t, gone.Checks[0].Selected)
	require.Len(t, gone.Checks, 1)
	require.Empty(t, gone.Others)

	blind := &Snapshot{NodeHealthChecks: snapshot.NodeHealthChecks, Missing: []Missing{{Resource: "nodes"}}}
	for name, checks := range map[string]int{"gone": 1, "node": 0} { // Whether there is such a Node is not known.
		explanation := NewExplanation(name, blind, details, now)
		require.True(t, explanation.Unreadable)
		require.False(t, explanation.Deleted)
		require.Len(t, explanation.Checks, checks)
	}
}
