// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestHonestTimes: status and explain show since when a condition has lasted as the controller judges it, and why that is
// not what its reporter says (spec 7.2). The rule lasts five minutes.
func TestHonestTimes(t *testing.T) {
	t.Parallel()
	soon := func(message string, left time.Duration) *v1alpha1.UnhealthyNode {
		entry := listed(v1alpha1.DecidedSoonUnhealthy, message)
		entry.Decision.NextCheckTime, entry.Remediations = ago(-left), make([]v1alpha1.Remediation, 1)
		return &entry
	}
	detected := func(age time.Duration) *v1alpha1.UnhealthyNode {
		entry := listed(v1alpha1.DecidedGateClosed, "")
		entry.Trigger, entry.Detected = &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionFalse}, ago(age)
		return &entry
	}
	const (
		moves = "its lastTransitionTime moves with every heartbeat"
		back  = "its reporter's clock has gone back"
	)
	for name, tc := range map[string]struct {
		// Transition is the age of the transition, created that of the Node.
		transition, created time.Duration
		entry               *v1alpha1.UnhealthyNode
		// Since is for how long the condition has lasted.
		since time.Duration
		doubt string
		state string
	}{
		"all is as it says":                                {transition: 6 * time.Minute, created: time.Hour, since: 6 * time.Minute, state: "Unhealthy"},
		"FR-315 a clock that was never set":                {transition: 53 * 365 * 24 * time.Hour, created: 40 * time.Second, since: 40 * time.Second, doubt: "its lastTransitionTime is before the creation of the Node", state: "SoonUnhealthy"},
		"FR-314 a Node that was restored (O35)":            {transition: 40 * time.Second, created: 10 * time.Second, since: 10 * time.Second, doubt: "its lastTransitionTime is before the creation of the Node", state: "SoonUnhealthy"},
		"FR-316 a clock that is ahead":                     {transition: -time.Hour, created: time.Hour, doubt: "its reporter's clock is 3600s ahead", state: "SoonUnhealthy"},
		"FR-316 a clock that is ahead, and is listed":      {transition: -time.Hour, created: 2 * time.Hour, entry: detected(6 * time.Minute), since: 6 * time.Minute, doubt: disbelieved, state: "Unhealthy"},
		"FR-317 a time that moves":                         {transition: 3 * time.Second, created: time.Hour, entry: detected(6 * time.Minute), since: 6 * time.Minute, doubt: disbelieved, state: "Unhealthy"},
		"FR-317 a time that moves, soon unhealthy":         {transition: 3 * time.Second, created: time.Hour, entry: soon("Condition Ready=False has not lasted for its duration yet: "+moves, time.Minute), since: 4 * time.Minute, doubt: moves, state: "SoonUnhealthy"},
		"FR-315 a clock that has gone back":                {transition: 20 * time.Minute, created: time.Hour, entry: soon("Condition Ready=False has not lasted for its duration yet: "+back, 4*time.Minute), since: time.Minute, doubt: back, state: "SoonUnhealthy"},
		"FR-315 a clock that has gone back, and is listed": {transition: 20 * time.Minute, created: time.Hour, entry: detected(6 * time.Minute), since: 6 * time.Minute, doubt: disbelieved, state: "Unhealthy"},
		"a relapse after the first trigger":                {transition: 10 * time.Minute, created: time.Hour, entry: detected(30 * time.Minute), since: 10 * time.Minute, state: "Unhealthy"},
		"what is decided is about another condition":       {transition: time.Minute, created: time.Hour, entry: soon("Condition Disk=True has not lasted for its duration yet", 3*time.Minute), since: time.Minute, state: "SoonUnhealthy"},
		"what is decided is the same":                      {transition: 4 * time.Minute, created: time.Hour, entry: soon("Condition Ready=False has not lasted for its duration yet", time.Minute), since: 4 * time.Minute, state: "SoonUnhealthy"},
	} {
		sick := node("node", ready(corev1.ConditionFalse, tc.transition))
		sick.CreationTimestamp = *ago(tc.created)
		nhc := valid(check())
		if tc.entry != nil {
			nhc = valid(check(*tc.entry))
		}
		explained := NewExplanation("node", &Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{nhc}, Nodes: []*corev1.Node{sick}}, &Details{}, now)
		of := explained.Checks[0]
		require.Equal(t, []Rule{{
			Condition: "Ready=False", Duration: "5m0s", Status: "False", Matches: true, Since: ago(tc.since), Doubt: tc.doubt, Expires: new(metav1.NewTime(now.Add(5*time.Minute - tc.since))),
		}}, of.Rules, name)
		require.Equal(t, []Condition{{Type: "Ready", Status: "False", Since: ago(tc.since), Doubt: tc.doubt}}, explained.Conditions, name)
		require.Equal(t, tc.state, of.State, name)
		require.Equal(t, of.Rules[0].Expires, of.Unhealthy, name)
		next := NewOverview(&Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{nhc}, Nodes: []*corev1.Node{sick}}, now).NodeHealthChecks[0].Next
		if tc.state == "SoonUnhealthy" {
			require.Len(t, next, 1, name)
			require.Equal(t, of.Rules[0].Since, next[0].Since, name)
			require.Equal(t, tc.doubt, next[0].Doubt, name)
		}
	}
}
