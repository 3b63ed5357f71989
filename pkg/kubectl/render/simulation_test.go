// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

func TestSimulation(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprintf("node-%02d", i))
	}
	result := &simulation.Result{
		Start: metav1.NewTime(now), Duration: after(time.Hour), Checks: []string{"infra", "workers"}, Budgets: []string{"zones"}, Nodes: 100,
		Timeline: []simulation.Line{
			{After: after(0), Nodes: all, What: simulation.Fails, Why: "Ready=Unknown"},
			{After: after(5 * time.Minute), Check: "workers", Nodes: all, What: simulation.Unhealthy, Why: "Ready=Unknown for 5m0s"},
			{After: after(5 * time.Minute), Check: "workers", What: simulation.StormBegins, Why: "40 of 100 nodes are not healthy"},
			{After: after(5 * time.Minute), Check: "workers", Nodes: all, What: simulation.Waits, Why: "BudgetExhausted: zones zone-a: 40 of at most 1 nodes are not healthy. \x1b[2JA zone that fails as a whole is not repaired node by node."},
			{After: after(10 * time.Minute), Check: "infra", Nodes: all[:3], What: simulation.Begins, Why: "step 1 of 2: SelfNodeRemediationTemplate medik8s/automatic"},
			{After: after(70 * time.Minute), Check: "infra", Nodes: all[:1], What: simulation.Exhausted},
		},
		Summary: simulation.Summary{
			Unhealthy: 40, Remediated: 3, MostAtATime: 3, TimedOut: 1, LongestWait: &simulation.Wait{Node: "node-05", For: after(55 * time.Minute)},
			StillWaiting: all[5:], StillRemediated: all[1:3], StillExhausted: all[:1],
		},
		Notes:   []string{"RemediationBudget machines counts Machines, which are not simulated: it limits nothing here."},
		Missing: []view.Missing{{Resource: "remediationbudgets", Reason: "You may not list remediationbudgets: ask for the ClusterRole nhc-view."}},
	}
	golden(t, "simulation", func(p *terminal.Printer) { Simulation(p, result) })
	golden(t, "simulation-nothing", func(p *terminal.Printer) {
		Simulation(p, &simulation.Result{Start: metav1.NewTime(now), Duration: after(time.Hour), Checks: []string{"workers"}, Nodes: 1})
	})
}
