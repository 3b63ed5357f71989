// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestAdvices: for each reason there is one, and the names are filled in.
func TestAdvices(t *testing.T) {
	t.Parallel()
	said := map[v1alpha1.DecisionReason]bool{ // Their messages say what is next.
		v1alpha1.DecidedTerminating: true, v1alpha1.DecidedDisabled: true, v1alpha1.DecidedClusterUpgrading: true, v1alpha1.DecidedGateClosed: true,
		v1alpha1.DecidedStormActive: true, v1alpha1.DecidedUnselected: true, v1alpha1.DecidedNextBatch: true,
	}
	for reason := range v1alpha1.DecisionReasons() {
		text := advice(reason, "workers", "node-1")
		require.Equal(t, said[reason], text == "", reason)
		require.NotContains(t, text, "{", reason)
	}
	for reason := range machinev1beta1.DecisionReasons() {
		text := machineAdvice(reason, "pool", &MachineExplanation{Namespace: "ns", Machine: "m"})
		require.Equal(t, said[reason], text == "", reason)
		require.NotContains(t, text, "{", reason)
	}
	require.Empty(t, advice("Abducted", "workers", "node-1"))
}

func TestWhatNext(t *testing.T) {
	t.Parallel()
	classic := Step{Kind: "RebootTemplate", Template: "default/reboot"}
	first, second := classic, Step{Kind: "ReplaceTemplate", Template: "default/replace", Timeout: "10m0s"}
	first.Timeout = "5m0s"
	object := func(kind string) []Remediation {
		return []Remediation{{Remediation: v1alpha1.Remediation{Resource: corev1.ObjectReference{Kind: kind, Name: "node-1"}}}}
	}
	closed := &Gate{NotHealthy: 3, MaxNotHealthy: 1}
	until := new(metav1.NewTime(now.Add(time.Minute)))
	stopped := &Leader{Namespace: "nhc-system", Holder: "pod", Renewed: ago(time.Hour), Until: ago(time.Hour)}
	for name, tc := range map[string]struct {
		leader  *Leader
		stopped string
		check   CheckOfNode
		want    string
	}{
		"no controller": {leader: stopped, check: CheckOfNode{State: "Unhealthy"}, want: "nothing, as long as no controller is at work"},
		"healthy":       {check: CheckOfNode{State: "Healthy"}, want: "nothing, as long as the node is healthy"},
		"not reported":  {check: CheckOfNode{State: "Unhealthy"}, want: "the controller has not reported the node yet"},
		"classic": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedStepRunning, "", until), Steps: []Step{classic}, Remediations: object("Reboot")},
			want: "at 03:01:00 (in 60s) the lease of the node is given up and the object is marked as timed out; it stays, and nothing else is tried: repair the node by hand then"},
		"first step": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedStepRunning, "", until), Steps: []Step{first, second}, Remediations: object("Reboot")},
			want: "at 03:01:00 (in 60s) the step times out, and step 2 begins: ReplaceTemplate default/replace"},
		"last step": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedStepRunning, "", until), Steps: []Step{first, second}, Remediations: append(object("Reboot"), object("Replace")...)},
			want: "at 03:01:00 (in 60s) the step times out, and no step is left: repair the node by hand then"},
		"O6 success, and not healthy": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedStepSucceeded, "", until), Steps: []Step{first, second}, Remediations: object("Reboot")},
			want: "the remediator is done, and the node has to become healthy: kubectl describe node node-1; at 03:01:00 (in 60s) the step times out, and step 2 begins: ReplaceTemplate default/replace"},
		"O6 lease":   {check: CheckOfNode{Decision: decision(v1alpha1.DecidedLeaseTaken, "", until)}, want: "it begins when the holder gives the lease of the node up, or does not renew it; time alone changes the decision at 03:01:00 (in 60s)"},
		"O6 delayed": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedHealthyDelay, "", until)}, want: "at 03:01:00 (in 60s) the remediation object is deleted, or at once with kubectl nhc confirm-healthy node-1"},
		"gate": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedGateClosed, "", nil), Gate: closed, NotHealthy: []string{"a", "b", "c"}},
			want: "it takes 2 of these to be healthy: a, b, c"},
		"impossible gate": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedGateClosed, "", nil), Gate: &Gate{NotHealthy: 1, MaxNotHealthy: -1}, NotHealthy: []string{"a"}},
			want: "the limit asks for more healthy nodes than there are nodes: lower minHealthy"},
		"some are not known": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedGateClosed, "", nil), Gate: closed, NotHealthy: []string{"a", "b"}}},
		"many": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedGateClosed, "", nil), Gate: closed, NotHealthy: strings.Split("abcdefghijkl", "")},
			want: "it takes 2 of these to be healthy: a, b, c, d, e, f, g, h, i, j and 2 more"},
		"stopped":  {stopped: "by a budget", check: CheckOfNode{Decision: decision(v1alpha1.DecidedBudgetExhausted, "", nil)}, want: "nothing, until the stop ends"},
		"excluded": {check: CheckOfNode{Decision: decision(v1alpha1.DecidedExcluded, "", nil)}, want: "it goes on with kubectl nhc resume node/node-1"},
		"newer":    {check: CheckOfNode{Decision: decision("Abducted", "", until)}, want: "at 03:01:00 (in 60s) the decision changes"},
	} {
		tc.check.Name = "workers"
		require.Equal(t, tc.want, WhatNext(&Explanation{Node: "node-1", Leader: tc.leader, Stopped: tc.stopped}, &tc.check, now), name)
	}
}

// TestTogether: those that wait for the same share a row.
func TestTogether(t *testing.T) {
	t.Parallel()
	waits := func(name string, age time.Duration, message string) Target {
		return Target{UnhealthyNode: v1alpha1.UnhealthyNode{Name: name, Detected: ago(age), Decision: decision(v1alpha1.DecidedBudgetExhausted, message, nil)}}
	}
	nodes := []Target{waits("a", time.Minute, "all: 0 of 0"), waits("b", time.Hour, "pool: 1 of 1"), waits("c", 2*time.Minute, "all: 0 of 0"), waits("d", time.Second, "all: 0 of 0")}
	machine := machinev1beta1.UnhealthyMachine{Name: "m", Decision: *decision(v1alpha1.DecidedGateClosed, "too many", nil)}
	overview := &Overview{Time: metav1.NewTime(now), NodeHealthChecks: []Check{{Name: "workers", Nodes: nodes}}, MachineHealthChecks: []*machinev1beta1.MachineHealthCheck{{
		Status: machinev1beta1.MachineHealthCheckStatus{UnhealthyMachines: []machinev1beta1.UnhealthyMachine{machine, machine}},
	}}}
	text := printedOverview(overview)
	require.Contains(t, text, "workers  3 nodes  2m   Held   a, c, d: BudgetExhausted: all: 0 of 0\nworkers  b        60m  Held   BudgetExhausted: pool: 1 of 1\n")
	require.Contains(t, text, "2 Machines  -    Held   m, m: GateClosed: too many\n")
	require.Equal(t, []string{"a", "c", "d"}, UnhealthyNodes(overview, false).Rows[0][4].Names)
	require.Len(t, UnhealthyNodes(overview, true).Rows, 4)
}

func printedOverview(overview *Overview) string {
	var text strings.Builder
	overview.Print(NewPrinter(&text, Options{}), false)
	return text.String()
}

// TestShortLists: a list is as long as a screen, and says what is left out.
func TestShortLists(t *testing.T) {
	t.Parallel()
	overview := &Overview{NodeHealthChecks: []Check{{Name: "workers"}},
		Common: []Shared{{What: "zone=a", Failing: 8, AllFailing: 8, Others: 1, AllOthers: 32}}}
	for i := range 120 {
		overview.NodeHealthChecks[0].Nodes = append(overview.NodeHealthChecks[0].Nodes, Target{UnhealthyNode: v1alpha1.UnhealthyNode{Name: "n", Decision: decision(v1alpha1.DecidedLeaseTaken, strconv.Itoa(i), nil)}})
	}
	text := printedOverview(overview)
	require.Contains(t, text, "100 more are not shown: -o wide shows all")
	require.Contains(t, text, "8 of 8 nodes that fail have zone=a, and 1 of 32 others.")
	require.Less(t, strings.Count(text, "\n"), 35)
}

func TestFullHistory(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	(&History{Full: []FullHistory{{Check: "workers", Kept: 20, Running: 120}, {Check: "gpu", Kept: 5}}}).Print(NewPrinter(&text, Options{}), false)
	require.Contains(t, text.String(), "workers keeps 20 episodes (spec.remediationHistoryLimit): older ones are not shown, nor are all of the 120 that run: kubectl nhc status workers\n")
	require.Contains(t, text.String(), "gpu keeps 5 episodes (spec.remediationHistoryLimit): older ones are not shown\n")
}

var unknown = &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}

func TestMachine(t *testing.T) {
	t.Parallel()
	target := func(reason v1alpha1.DecisionReason) *Target {
		made := decision(reason, "", nil)
		made.Type = machinev1beta1.DecisionType(reason)
		return &Target{UnhealthyNode: v1alpha1.UnhealthyNode{Name: "m", Trigger: unknown, Detected: ago(time.Hour), Decision: made}}
	}
	for name, tc := range map[string]struct {
		machine MachineExplanation
		want    []string
	}{
		"healthy":          {MachineExplanation{Known: true, Owned: true, Phase: "Running", Node: "n", Checks: []CheckOfMachine{{Name: "pool"}}}, []string{"Phase: Running, node: n", "not reported as unhealthy", "Next: nothing, as long as the Machine is healthy", "kubectl nhc explain node n"}},
		"without an owner": {MachineExplanation{Known: true}, []string{"No controller owns it", "No MachineHealthCheck of its namespace selects it"}},
		"deleting":         {MachineExplanation{Known: true, Owned: true, Deleting: true, Checks: []CheckOfMachine{{Name: "pool", Target: target(machinev1beta1.DecidedMachineDeleting)}}}, []string{"It is being deleted", "Remediating, MachineDeleting", "Next: its provider drains and deletes it"}},
		"held":             {MachineExplanation{Checks: []CheckOfMachine{{Name: "pool", Target: target(v1alpha1.DecidedPaused)}}}, []string{"It cannot be read, or is gone", "Ready=Unknown since 02:00:00 (60m)", "kubectl nhc resume ns/pool"}},
		"S10 it waits for its timeout": {MachineExplanation{Checks: []CheckOfMachine{{Name: "pool", Target: &Target{UnhealthyNode: v1alpha1.UnhealthyNode{Decision: decision(v1alpha1.DecidedGateClosed, "may be booting", new(metav1.NewTime(now.Add(time.Minute))))}}}}},
			[]string{"may be booting", "Next: at 03:01:00 (in 60s) the decision changes"}},
		"without a controller": {MachineExplanation{Leader: &Leader{}, Checks: []CheckOfMachine{{Name: "pool", Target: target(v1alpha1.DecidedPaused)}}},
			[]string{"No controller is at work", "Next: nothing, as long as no controller is at work"}},
	} {
		tc.machine.Namespace, tc.machine.Machine, tc.machine.Time = "ns", "m", metav1.NewTime(now)
		var text strings.Builder
		tc.machine.Print(NewPrinter(&text, Options{}))
		for _, want := range tc.want {
			require.Contains(t, text.String(), want, name)
		}
	}
}

// TestMachineNext: O20 what explain machine prints of a Machine that starts, and of one that is unhealthy.
func TestMachineNext(t *testing.T) {
	t.Parallel()
	until := new(metav1.NewTime(now.Add(time.Minute)))
	for name, tc := range map[string]struct {
		target *Target
		want   []string
	}{
		"healthy": {want: []string{"Health: not reported as unhealthy", "Next: nothing, as long as the Machine is healthy"}},
		"starts": {target: &Target{UnhealthyNode: v1alpha1.UnhealthyNode{Decision: decision(machinev1beta1.DecidedNotStarted, "The Machine has no Node yet", until)}}, want: []string{
			"Health: not healthy yet", "Next: it has to get a Node before nodeStartupTimeout ends; time alone changes the decision at 03:01:00 (in 60s)",
		}},
		"deleted": {target: &Target{UnhealthyNode: v1alpha1.UnhealthyNode{Trigger: unknown, Detected: ago(time.Hour), Decision: decision(machinev1beta1.DecidedMachineDeleting, "", nil)}}, want: []string{
			"Health: Ready=Unknown since ", "Next: its provider drains and deletes it; ",
		}},
	} {
		var text strings.Builder
		(&MachineExplanation{
			Time: metav1.NewTime(now), Namespace: "ns", Machine: "m", Known: true, Checks: []CheckOfMachine{{Name: "pool", Target: tc.target}},
		}).Print(NewPrinter(&text, Options{}))
		for _, want := range tc.want {
			require.Contains(t, text.String(), want, name)
		}
	}
}
