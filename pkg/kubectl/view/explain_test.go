// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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

// TestListed: of a node that the controller lists, explain and status show what it has written, also where the times on
// the Node say something else (spec 7.2). The rule lasts five minutes.
func TestListed(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) *metav1.Time { return ago(-d) }
	soon := listed(v1alpha1.DecidedSoonUnhealthy, "its reporter's clock has gone back")
	soon.Decision.NextCheckTime = in(4 * time.Minute)
	held := listed(v1alpha1.DecidedGateClosed, "")
	held.Trigger, held.Detected = &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionFalse}, ago(6*time.Minute)
	healed := held
	healed.ConditionsHealthyTimestamp = ago(time.Minute)
	for name, tc := range map[string]struct {
		entry     *v1alpha1.UnhealthyNode
		status    corev1.ConditionStatus
		lasted    time.Duration
		state     string
		unhealthy *metav1.Time
		next      int
	}{
		"not listed, unhealthy":         {status: corev1.ConditionFalse, lasted: 6 * time.Minute, state: "Unhealthy", unhealthy: ago(time.Minute), next: 1},
		"not listed, soon":              {status: corev1.ConditionFalse, lasted: time.Minute, state: "SoonUnhealthy", unhealthy: in(4 * time.Minute), next: 1},
		"a clock that has gone back":    {entry: &soon, status: corev1.ConditionFalse, lasted: 20 * time.Minute, state: "SoonUnhealthy", unhealthy: in(4 * time.Minute), next: 1},
		"a time that moves":             {entry: &held, status: corev1.ConditionFalse, lasted: time.Second, state: "Unhealthy", unhealthy: ago(6 * time.Minute)},
		"it is healthy, and listed":     {entry: &held, status: corev1.ConditionTrue, lasted: time.Second, state: "Healthy"},
		"it was healthy, and is not":    {entry: &healed, status: corev1.ConditionFalse, lasted: time.Minute, state: "SoonUnhealthy", unhealthy: in(4 * time.Minute)},
		"listed, as the Node says, too": {entry: &held, status: corev1.ConditionFalse, lasted: 6 * time.Minute, state: "Unhealthy", unhealthy: ago(time.Minute)},
	} {
		nhc := valid(check())
		if tc.entry != nil {
			nhc = valid(check(*tc.entry))
		}
		snapshot := &Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{nhc}, Nodes: []*corev1.Node{node("node", ready(tc.status, tc.lasted))}}
		explained := NewExplanation("node", snapshot, &Details{}, now).Checks[0]
		require.Equal(t, tc.state, explained.State, name)
		require.Equal(t, tc.unhealthy, explained.Unhealthy, name)
		next := NewOverview(snapshot, now).NodeHealthChecks[0].Next
		require.Len(t, next, tc.next, name)
		if tc.next > 0 {
			require.Equal(t, tc.unhealthy, next[0].Unhealthy, name)
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
	require.Equal(t, "Ready=False", check.Trigger)
	require.Equal(t, snapshot.NodeHealthChecks[0].Spec.UnhealthyConditions, check.Rules)
	require.Equal(t, []Step{{Kind: "RebootTemplate", Template: "default/reboot"}}, check.Steps)
	require.Equal(t, `node-node is held by "maintenance", until 03:09:00 (9m)`, LeaseOf(explanation))
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
