// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

func condition(typ corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{Type: typ, Status: status, LastTransitionTime: metav1.NewTime(since)}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	criteria := NewCriteria(check(withConditions(
		v1beta1.UnhealthyCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: "5m"},
		v1beta1.UnhealthyCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: "5m"},
		v1beta1.UnhealthyCondition{Type: "Disk", Status: corev1.ConditionTrue, Timeout: "1m"},
	)))
	unknown := []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionUnknown, epoch)}
	byCondition := func(state State, trigger string) Verdict {
		return Verdict{State: state, Trigger: trigger, Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Since: epoch, Deadline: epoch.Add(5 * time.Minute)}
	}
	failed := Verdict{State: Unhealthy, Trigger: v1beta1.TriggerMachineFailed}
	missing := Verdict{State: Unhealthy, Trigger: v1beta1.TriggerNodeMissing}
	startup := epoch.Add(10 * time.Minute)
	tests := map[string]struct {
		machine    *Machine
		node       NodeState
		conditions []corev1.NodeCondition
		remediated bool
		now        time.Duration
		want       Verdict
	}{
		"M6.1 healthy":                                     {machine: machine("m"), node: NodeExists, want: Verdict{}},
		"M6.1 another status does not match":               {machine: machine("m"), node: NodeExists, conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionTrue, epoch)}, now: time.Hour, want: Verdict{}},
		"M6.1 under remediation":                           {machine: machine("m"), node: NodeExists, remediated: true, want: Verdict{State: UnderRemediation}},
		"M6.1 one nanosecond before the timeout":           {machine: machine("m"), node: NodeExists, conditions: unknown, now: 5*time.Minute - 1, want: byCondition(SoonUnhealthy, "")},
		"M6.2 exactly at the timeout":                      {machine: machine("m"), node: NodeExists, conditions: unknown, now: 5 * time.Minute, want: byCondition(Unhealthy, v1beta1.TriggerUnhealthyCondition)},
		"M6.1 soon-unhealthy under remediation":            {machine: machine("m"), node: NodeExists, conditions: unknown, remediated: true, want: byCondition(SoonUnhealthy, "")},
		"M6.1 unhealthy under remediation":                 {machine: machine("m"), node: NodeExists, conditions: unknown, remediated: true, now: time.Hour, want: byCondition(Unhealthy, v1beta1.TriggerUnhealthyCondition)},
		"M6.1 deleting comes first":                        {machine: machine("m", deletingMachine, failedPhase), node: NodeMissing, conditions: unknown, remediated: true, now: time.Hour, want: Verdict{State: Deleting}},
		"M6.2 failed":                                      {machine: machine("m", failedPhase), node: NodeExists, want: failed},
		"M6.2 failed before it had a Node":                 {machine: machine("m", failedPhase, noNode), want: failed},
		"M6.2 failed comes before a missing Node":          {machine: machine("m", failedPhase), node: NodeMissing, want: failed},
		"M6.2 failed comes before the startup timeout":     {machine: machine("m", failedPhase, noNode), now: time.Hour, want: failed},
		"M6.2 failed comes before a condition":             {machine: machine("m", failedPhase), node: NodeExists, conditions: unknown, now: time.Hour, want: failed},
		"M6.2 failed whatever is known of the Node":        {machine: machine("m", failedPhase), node: NodeUnknown, want: failed},
		"M6.2 a live read did not find the Node":           {machine: machine("m"), node: NodeMissing, want: missing},
		"M6.2 missing comes before a condition":            {machine: machine("m"), node: NodeMissing, conditions: unknown, now: time.Hour, want: missing},
		"M6.2 a cache alone never says that":               {machine: machine("m"), node: NodeUnknown, now: time.Hour, want: Verdict{State: SoonUnhealthy}},
		"M6.2 no Node is missing where none is named":      {machine: machine("m", noNode), node: NodeMissing, want: Verdict{State: NotStarted, Deadline: startup}},
		"M6.1 not started":                                 {machine: machine("m", noNode), now: 10*time.Minute - 1, want: Verdict{State: NotStarted, Deadline: startup}},
		"M6.1 not started comes before under remediation":  {machine: machine("m", noNode), remediated: true, want: Verdict{State: NotStarted, Deadline: startup}},
		"M6.2 exactly at the startup timeout":              {machine: machine("m", noNode), now: 10 * time.Minute, want: Verdict{State: Unhealthy, Trigger: v1beta1.TriggerNodeStartupTimeout, Deadline: startup}},
		"M6.2 no startup timeout with a Node":              {machine: machine("m"), node: NodeExists, now: time.Hour, want: Verdict{}},
		"P7 one that has expired, behind one that has not": {machine: machine("m"), node: NodeExists, conditions: []corev1.NodeCondition{condition("Disk", corev1.ConditionTrue, epoch.Add(50*time.Minute)), unknown[0]}, now: 50 * time.Minute, want: byCondition(Unhealthy, v1beta1.TriggerUnhealthyCondition)},
		"P7 one that has expired, before one that has not": {machine: machine("m"), node: NodeExists, conditions: []corev1.NodeCondition{unknown[0], condition("Disk", corev1.ConditionTrue, epoch.Add(50*time.Minute))}, now: 50 * time.Minute, want: byCondition(Unhealthy, v1beta1.TriggerUnhealthyCondition)},
		"M6.2 without lastTransitionTime":                  {machine: machine("m"), node: NodeExists, conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}, now: time.Hour, want: Verdict{State: SoonUnhealthy, Type: corev1.NodeReady, Status: corev1.ConditionUnknown}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for api, change := range machineAPIs {
				require.Equal(t, tc.want, criteria.Judge(tc.machine.of(change), tc.node, health.Evidence{Conditions: tc.conditions}, tc.remediated, epoch.Add(tc.now)), api)
			}
		})
	}
}

// TestStartup: from when the startup time runs, and its end (spec M6.3).
func TestStartup(t *testing.T) {
	t.Parallel()
	started := func(at time.Duration) func(*Machine) {
		return func(m *Machine) { m.Started = epoch.Add(at) }
	}
	for name, tc := range map[string]struct {
		timeout string
		machine *Machine
		end     time.Duration // Zero if there is none.
	}{
		"M6.3 from the creation":                       {"10m", machine("m", noNode), 10 * time.Minute},
		"M6.3 from the later start":                    {"10m", machine("m", noNode, started(3*time.Minute)), 13 * time.Minute},
		"M6.3 from the creation, which is later":       {"10m", machine("m", noNode, started(-time.Hour)), 10 * time.Minute},
		"M6.3 of Cluster API":                          {"10m", machine("m", noNode, ofClusterAPI, started(3*time.Minute)), 13 * time.Minute},
		"M6.3 the latest start":                        {"10m", machine("m", noNode, started(time.Hour)), 70 * time.Minute},
		"M6.3 a second before it":                      {"10m", machine("m", noNode, started(time.Hour-time.Second)), 70*time.Minute - time.Second},
		"M6.3 later than that":                         {"10m", machine("m", noNode, started(time.Hour+time.Second)), 70 * time.Minute},
		"M6.3 a start that cannot be":                  {"10m", machine("m", noNode, started(1000*time.Hour)), 70 * time.Minute},
		"M6.2 zero turns it off":                       {"0", machine("m", noNode, started(time.Hour)), 0},
		"M6.2 zero seconds turn it off":                {"0s", machine("m", noNode), 0},
		"M6.3 a timeout that six of cannot be counted": {"500000h", machine("m", noNode), 500000 * time.Hour},
		"M6.3 the longest timeout":                     {"2562047h", machine("m", noNode), 2562047 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			criteria := NewCriteria(check(withStartup(tc.timeout)))
			require.Empty(t, criteria.Problem)
			if tc.end == 0 {
				require.Equal(t, Verdict{State: NotStarted}, criteria.Judge(tc.machine, NodeUnknown, health.Evidence{}, false, epoch.Add(10000*time.Hour)))
				return
			}
			end := epoch.Add(tc.end)
			require.Equal(t, Verdict{State: NotStarted, Deadline: end}, criteria.Judge(tc.machine, NodeUnknown, health.Evidence{}, false, end.Add(-1)))
			require.Equal(t, Verdict{State: Unhealthy, Trigger: v1beta1.TriggerNodeStartupTimeout, Deadline: end}, criteria.Judge(tc.machine, NodeUnknown, health.Evidence{}, false, end))
		})
	}
}

func TestStateString(t *testing.T) {
	t.Parallel()
	for state, want := range map[State]string{
		Healthy: "Healthy", UnderRemediation: "UnderRemediation", NotStarted: "NotStarted", SoonUnhealthy: "SoonUnhealthy", Unhealthy: "Unhealthy", Deleting: "Deleting",
		-1: "Invalid", 6: "Invalid",
	} {
		require.Equal(t, want, state.String())
	}
}
