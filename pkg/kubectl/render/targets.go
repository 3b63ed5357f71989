// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// targets are the nodes that are unhealthy or under remediation, and what they wait for.
func targets(overview *view.Overview, now time.Time, wide bool) terminal.Table {
	table := terminal.Table{Header: []string{"CHECK", "NODE", "FOR", "STATE", "BECAUSE"}}
	if wide {
		table.Header = []string{"CHECK", "NODE", "FOR", "TRIGGER", "REMEDIATION", "STATE", "BECAUSE"}
	}
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		for j := range check.Nodes {
			node := &check.Nodes[j]
			cells := []terminal.Cell{terminal.Text(check.Name), terminal.Text(node.Name), terminal.Text(Ago(node.Detected, now))}
			if wide {
				cells = append(cells, terminal.Text(cmp.Or(node.Trigger, unknown)), terminal.Text(Remediations(node.Remediations)))
			}
			table.Add(append(cells, State(node.Decision), terminal.Text(Why(node, now)))...)
		}
	}
	return table
}

// machines are the Machines that are not healthy.
func machines(overview *view.Overview, now time.Time, wide bool) terminal.Table {
	table := terminal.Table{Header: []string{"CHECK", "MACHINE", "FOR", "STATE", "BECAUSE"}}
	if wide {
		table.Header = []string{"CHECK", "MACHINE", "NODE", "FOR", "TRIGGER", "STATE", "BECAUSE"}
	}
	for i := range overview.MachineHealthChecks {
		check := &overview.MachineHealthChecks[i]
		for j := range check.Machines {
			machine := check.Machines[j]
			if check.Held != nil && machine.Decision != nil && machine.Decision.Message == check.Held.Message {
				machine.Decision = machine.Decision.DeepCopy()
				machine.Decision.Message = "" // It stands above.
			}
			cells := []terminal.Cell{terminal.Text(check.Namespace + "/" + check.Name), terminal.Text(machine.Name)}
			if wide {
				cells = append(cells, terminal.Text(cmp.Or(machine.Node, unknown)))
			}
			cells = append(cells, terminal.Text(Ago(machine.Detected, now)))
			if wide {
				cells = append(cells, terminal.Text(cmp.Or(machine.Trigger, unknown)))
			}
			table.Add(append(cells, State(machine.Decision), terminal.Text(Why(&machine, now)))...)
		}
	}
	return table
}

// State is the type of a decision.
func State(decision *v1alpha1.Decision) terminal.Cell {
	if decision == nil {
		return terminal.Cell{Text: unknown, Style: terminal.Faint}
	}
	style := terminal.Plain
	switch decision.Type {
	case v1alpha1.DecisionRemediating, v1alpha1.DecisionWaiting:
		style = terminal.Warning
	case v1alpha1.DecisionHeld, v1alpha1.DecisionExhausted:
		style = terminal.Bad
	case v1alpha1.DecisionDelayed:
		style = terminal.Good
	}
	return terminal.Cell{Text: string(decision.Type), Style: style}
}

// Why is the reason of a decision, and when time alone changes it.
func Why(target *view.Target, now time.Time) string {
	text := unknown
	if decision := target.Decision; decision != nil {
		text = Because(string(decision.Reason), decision.Message)
		if until := decision.NextCheckTime; until != nil {
			word := "until"
			if decision.Reason == v1alpha1.DecidedStepRunning {
				word = "times out at"
			}
			text += fmt.Sprintf("; %s %s (%s)", word, Clock(until, now), In(until, now))
		}
	}
	if target.HealthySince != nil {
		text += "; healthy for " + Ago(target.HealthySince, now)
	}
	return text
}

// MachineChecks is a table of the MachineHealthChecks.
func MachineChecks(overview *view.Overview) terminal.Table {
	table := terminal.Table{Header: []string{"NAME", "HEALTHY", "ALLOWED", "LIMIT"}}
	for i := range overview.MachineHealthChecks {
		check := &overview.MachineHealthChecks[i]
		healthy, allowed := unknown, unknown
		if check.ExpectedMachines != nil && check.CurrentHealthy != nil {
			healthy = fmt.Sprintf("%d of %d", *check.CurrentHealthy, *check.ExpectedMachines)
		}
		if check.RemediationsAllowed != nil {
			allowed = strconv.Itoa(int(*check.RemediationsAllowed))
		}
		limit := terminal.Text("maxUnhealthy " + cmp.Or(check.MaxUnhealthy, "100%"))
		if check.Held != nil {
			limit = terminal.Cell{Text: "nothing new begins: " + Because(check.Held.Reason, check.Held.Message), Style: terminal.Bad}
		}
		table.Add(terminal.Text(check.Namespace+"/"+check.Name), terminal.Text(healthy), terminal.Text(allowed), limit)
	}
	return table
}

// Budgets is a table of the RemediationBudgets, with more columns if it is wide.
func Budgets(overview *view.Overview, wide bool) terminal.Table {
	table := terminal.Table{Header: []string{"NAME", "UNHEALTHY", "REMEDIATING", "ALLOWED", "STATE"}}
	if wide {
		table.Header = []string{"NAME", "UNHEALTHY", "REMEDIATING", "ALLOWED", "MAXUNHEALTHY", "MAXCONCURRENT", "MININTERVAL", "STATE"}
	}
	for i := range overview.RemediationBudgets {
		budget := &overview.RemediationBudgets[i]
		unhealthy, remediating := unknown, unknown
		if budget.Counted {
			unhealthy, remediating = fmt.Sprintf("%d of %d", budget.UnhealthyNodes, budget.ObservedNodes), strconv.Itoa(budget.RemediatingNodes)
		}
		cells := []terminal.Cell{terminal.Text(budget.Name), terminal.Text(unhealthy), terminal.Text(remediating), Allowance(budget.Counted, budget.RemediationsAllowed)}
		if wide {
			cells = append(cells, terminal.Text(cmp.Or(budget.MaxUnhealthy, unknown)), terminal.Text(cmp.Or(budget.MaxConcurrent, unknown)), terminal.Text(cmp.Or(budget.MinInterval, unknown)))
		}
		table.Add(append(cells, BudgetState(budget))...)
	}
	return table
}

// Allowance is how many remediations a budget allows.
func Allowance(counted bool, allowed *int32) terminal.Cell {
	switch {
	case !counted:
		return terminal.Cell{Text: unknown, Style: terminal.Faint}
	case allowed == nil:
		return terminal.Text("any")
	case *allowed == 0:
		return terminal.Cell{Text: "0", Style: terminal.Warning}
	default:
		return terminal.Text(strconv.Itoa(int(*allowed)))
	}
}

// BudgetState says whom a budget keeps waiting.
func BudgetState(budget *view.Budget) terminal.Cell {
	switch {
	case budget.Invalid != "":
		return terminal.Cell{Text: "invalid: " + budget.Invalid, Style: terminal.Bad}
	case !budget.Counted:
		return terminal.Cell{Text: "the controller has not counted yet", Style: terminal.Warning}
	case budget.Waiting != "":
		return terminal.Cell{Text: withReason(budget.Waiting, budget.Reason), Style: terminal.Bad}
	default:
		return terminal.Cell{Text: withReason("no node waits", budget.Reason), Style: terminal.Good}
	}
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ". " + reason
}

// Groups are those of the budgets that have several.
func Groups(overview *view.Overview, now time.Time) terminal.Table {
	table := terminal.Table{Header: []string{"BUDGET", "GROUP", "UNHEALTHY", "REMEDIATING", "ALLOWED", "LAST BEGAN"}}
	for i := range overview.RemediationBudgets {
		budget := &overview.RemediationBudgets[i]
		if len(budget.Groups) < 2 {
			continue
		}
		for j := range budget.Groups {
			group := &budget.Groups[j]
			last := unknown
			if group.LastStarted != nil {
				last = Ago(group.LastStarted, now) + " ago"
			}
			table.Add(terminal.Text(budget.Name), terminal.Text(cmp.Or(group.Name, `""`)), terminal.Text(fmt.Sprintf("%d of %d", group.UnhealthyNodes, group.ObservedNodes)),
				terminal.Text(strconv.Itoa(int(group.RemediatingNodes))), Allowance(true, group.RemediationsAllowed), terminal.Text(last))
		}
	}
	return table
}
