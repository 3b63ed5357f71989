// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

func TestPrintReplay(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	const long = "ip-10-0-131-17.eu-central-1.compute.internal"
	waits := "BudgetExhausted: zones eu-central-1a: 2 of at most 1 nodes are not healthy. \x1b[2JA zone that fails as a whole is not repaired node by node."
	result := &Result{
		Start: metav1.NewTime(now), Duration: *after(26 * time.Hour), Checks: []string{"infra", "workers"}, Budgets: []string{"zones"}, Nodes: 99,
		Timeline: []Line{
			{After: *after(time.Minute), Nodes: []string{long, "node-7"}, What: Fails, Why: "Ready=Unknown"},
			{After: *after(6*time.Minute + 1234*time.Millisecond), Check: "workers", Nodes: []string{long}, What: Waits, Why: waits},
			{After: *after(30 * time.Minute), What: NotRecorded, Why: "for 2m0s until now: changes may be missing, or late"},
			{After: *after(25 * time.Hour), Nodes: []string{"node-7"}, What: Deleted},
		},
		Episodes: []*Episode{
			{Node: long, Check: "workers", Detected: *after(6 * time.Minute), Ended: after(20 * time.Minute), Waits: waits},
			{Node: "node-7", Check: "infra", Detected: *after(6 * time.Minute), Began: after(18 * time.Minute), Steps: 2, Waits: "GateClosed: 3 of 9 nodes are healthy, at least 5 have to be"},
			{Node: "node-8", Check: "infra", Detected: *after(25 * time.Hour), Began: after(25 * time.Hour), Ended: after(25*time.Hour + time.Minute), Steps: 1},
		},
		Summary: Summary{
			Unhealthy: 41, Remediated: 38, Remediations: 39, MostAtATime: 12, TimedOut: 1, LongestWait: &Wait{Node: long, For: *after(14 * time.Minute)},
			StillRemediated: []string{"node-7"},
		},
		Notes:   []string{"The last line is cut off, and was left out: the recording ends early."},
		Missing: []view.Missing{{Resource: "remediationbudgets", Reason: "You may not list remediationbudgets: ask for the ClusterRole nhc-view."}},
	}
	replay := &Replay{
		Recorded: Recorded{File: "storm.jsonl", Nodes: 100, Changes: 412, Gaps: 1}, Configuration: "nhc.yaml", Result: result,
		Comparison: &Comparison{
			Against: "the cluster", Checks: []string{"workers"}, Summary: Summary{Unhealthy: 41, Remediated: 41, Remediations: 41, MostAtATime: 20},
			Differences: []Difference{
				{After: *after(6 * time.Minute), Node: long, What: NotStarted, Why: waits},
				{After: *after(6 * time.Minute), Node: "node-7", What: Later, By: after(12 * time.Minute), Why: "GateClosed: 3 of 9 nodes are healthy, at least 5 have to be"},
				{After: *after(7 * time.Minute), Node: "node-9", What: Later, By: after(time.Minute), Why: "unhealthy 1m0s later"},
				{After: *after(8 * time.Minute), Node: "node-10", What: Earlier, By: after(90 * time.Second)},
				{After: *after(9 * time.Minute), Node: "node-11", What: OtherSteps, Why: "2 instead of 1"},
				{After: *after(25 * time.Hour), Node: "node-8", What: Additional, Why: "by NodeHealthCheck infra"},
			},
		},
	}
	show := func(replay *Replay, wide bool) func(*view.Printer) {
		return func(p *view.Printer) { replay.Print(p, wide, time.UTC) }
	}
	compare(t, "replay", show(replay, false))
	compare(t, "replay-wide", show(replay, true))
	alone := *replay
	alone.Comparison = nil
	compare(t, "replay-alone", show(&alone, false))
	same := *replay
	same.Comparison = &Comparison{Against: "old.yaml", Checks: []string{"workers"}, Summary: result.Summary}
	compare(t, "replay-same", show(&same, false))
	compare(t, "replay-nothing", show(&Replay{
		Recorded: Recorded{File: "quiet.jsonl", Nodes: 1}, Configuration: "nhc.yaml",
		Result: &Result{Start: metav1.NewTime(now), Duration: *after(time.Minute), Checks: []string{"workers"}},
	}, false))
}
