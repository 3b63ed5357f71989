// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"io"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/test/golden"
)

var now = time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC)

// compare compares the output with files.
func compare(t *testing.T, name string, show func(*view.Printer)) {
	t.Helper()
	golden.Check(t, name, func(out io.Writer, width int, colour bool) {
		show(view.NewPrinter(out, view.Options{Width: width, Colour: colour}))
	})
}

func TestPrint(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprintf("node-%02d", i))
	}
	result := &Result{
		Start: metav1.NewTime(now), Duration: after(time.Hour), Checks: []string{"infra", "workers"}, Budgets: []string{"zones"}, Nodes: 100,
		Timeline: []Line{
			{After: after(0), Nodes: all, What: Fails, Why: "Ready=Unknown"},
			{After: after(5 * time.Minute), Check: "workers", Nodes: all, What: Unhealthy, Why: "Ready=Unknown for 5m0s"},
			{After: after(5 * time.Minute), Check: "workers", What: StormBegins, Why: "40 of 100 nodes are not healthy"},
			{After: after(5 * time.Minute), Check: "workers", Nodes: all, What: Waits, Why: "BudgetExhausted: zones zone-a: 40 of at most 1 nodes are not healthy. \x1b[2JA zone that fails as a whole is not repaired node by node."},
			{After: after(10 * time.Minute), Check: "infra", Nodes: all[:3], What: Begins, Why: "step 1 of 2: SelfNodeRemediationTemplate medik8s/automatic"},
			{After: after(70 * time.Minute), Check: "infra", Nodes: all[:1], What: Exhausted},
		},
		Summary: Summary{
			Unhealthy: 40, Remediated: 3, MostAtATime: 3, TimedOut: 1, LongestWait: &Wait{Node: "node-05", For: after(55 * time.Minute)},
			StillWaiting: all[5:], StillRemediated: all[1:3], StillExhausted: all[:1],
		},
		Notes:   []string{"RemediationBudget machines counts Machines, which are not simulated: it limits nothing here."},
		Missing: []view.Missing{{Resource: "remediationbudgets", Reason: "You may not list remediationbudgets: ask for the ClusterRole nhc-view."}},
	}
	compare(t, "simulation", func(p *view.Printer) { result.Print(p, nil) })
	compare(t, "simulation-nothing", func(p *view.Printer) {
		(&Result{Start: metav1.NewTime(now), Duration: after(time.Hour), Checks: []string{"workers"}, Nodes: 1}).Print(p, nil)
	})
}

func TestPrintRecorded(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	const long = "ip-10-0-131-17.eu-central-1.compute.internal"
	waits := "BudgetExhausted: zones eu-central-1a: 2 of at most 1 nodes are not healthy. \x1b[2JA zone that fails as a whole is not repaired node by node."
	result := &Result{
		Start: metav1.NewTime(now), Duration: after(26 * time.Hour), Checks: []string{"workers"}, Nodes: 99,
		Timeline: []Line{
			{After: after(time.Minute), Nodes: []string{long, "node-7"}, What: Fails, Why: "Ready=Unknown"},
			{After: after(6*time.Minute + 1234*time.Millisecond), Check: "workers", Nodes: []string{long}, What: Waits, Why: waits},
			{After: after(25 * time.Hour), Nodes: []string{"node-7"}, What: Deleted},
		},
		Notes: []string{"The last event of the recording is cut off, and was left out."},
	}
	show := func(result Result) func(*view.Printer) {
		return func(p *view.Printer) { result.Print(p, time.UTC) }
	}
	compare(t, "recorded", show(*result))
	compare(t, "recorded-nothing", show(Result{Start: metav1.NewTime(now), Duration: after(time.Minute), Checks: []string{"workers"}}))
}
