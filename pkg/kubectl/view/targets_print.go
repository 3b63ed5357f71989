// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// UnhealthyNodes is a table of the nodes that are unhealthy or under remediation, and what they wait for.
func UnhealthyNodes(overview *Overview, wide bool) Table {
	now := overview.Time.Time
	table := Table{Title: "Unhealthy nodes", Header: []string{"CHECK", "NODE", "FOR", "STATE", "BECAUSE"}}
	if wide {
		table.Header = []string{"CHECK", "NODE", "FOR", "TRIGGER", "REMEDIATION", "STATE", "BECAUSE"}
	}
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		for j := range check.Nodes {
			node := &check.Nodes[j]
			cells := []Cell{Text(check.Name), Text(node.Name), Text(Ago(node.Detected, now))}
			if wide {
				cells = append(cells, Text(cmp.Or(node.Trigger, Unknown)), Text(Remediations(node.Remediations)))
			}
			table.Add(append(cells, State(node.Decision), Text(Why(node, now)))...)
		}
	}
	return table
}

// UnhealthyMachines is a table of the Machines that are not healthy.
func UnhealthyMachines(overview *Overview, wide bool) Table {
	now := overview.Time.Time
	table := Table{Title: "Unhealthy machines", Header: []string{"CHECK", "MACHINE", "FOR", "STATE", "BECAUSE"}}
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
			cells := []Cell{Text(check.Namespace + "/" + check.Name), Text(machine.Name)}
			if wide {
				cells = append(cells, Text(cmp.Or(machine.Node, Unknown)))
			}
			cells = append(cells, Text(Ago(machine.Detected, now)))
			if wide {
				cells = append(cells, Text(cmp.Or(machine.Trigger, Unknown)))
			}
			table.Add(append(cells, State(machine.Decision), Text(Why(&machine, now)))...)
		}
	}
	return table
}

// State is the type of a decision.
func State(decision *v1alpha1.Decision) Cell {
	if decision == nil {
		return Cell{Text: Unknown, Style: Faint}
	}
	style := Plain
	switch decision.Type {
	case v1alpha1.DecisionRemediating, v1alpha1.DecisionWaiting:
		style = Warning
	case v1alpha1.DecisionHeld, v1alpha1.DecisionExhausted:
		style = Bad
	case v1alpha1.DecisionDelayed:
		style = Good
	}
	return Cell{Text: string(decision.Type), Style: style}
}

// Why is the reason of a decision, and when time alone changes it.
func Why(target *Target, now time.Time) string {
	text := Unknown
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
func MachineChecks(overview *Overview) Table {
	table := Table{Title: "MachineHealthChecks", Header: []string{"NAME", "HEALTHY", "ALLOWED", "LIMIT"}}
	for i := range overview.MachineHealthChecks {
		check := &overview.MachineHealthChecks[i]
		healthy, allowed := Unknown, Unknown
		if check.ExpectedMachines != nil && check.CurrentHealthy != nil {
			healthy = fmt.Sprintf("%d of %d", *check.CurrentHealthy, *check.ExpectedMachines)
		}
		if check.RemediationsAllowed != nil {
			allowed = strconv.Itoa(int(*check.RemediationsAllowed))
		}
		limit := Text("maxUnhealthy " + cmp.Or(check.MaxUnhealthy, "100%"))
		if check.Held != nil {
			limit = Cell{Text: "nothing new begins: " + Because(check.Held.Reason, check.Held.Message), Style: Bad}
		}
		table.Add(Text(check.Namespace+"/"+check.Name), Text(healthy), Text(allowed), limit)
	}
	return table
}

// Budgets is a table of the RemediationBudgets, with more columns if it is wide.
func Budgets(overview *Overview, wide bool) Table {
	table := Table{Title: "RemediationBudgets", Header: []string{"NAME", "UNHEALTHY", "REMEDIATING", "ALLOWED", "STATE"}}
	if wide {
		table.Header = []string{"NAME", "UNHEALTHY", "REMEDIATING", "ALLOWED", "MAXUNHEALTHY", "MAXCONCURRENT", "MININTERVAL", "STATE"}
	}
	for i := range overview.RemediationBudgets {
		budget := &overview.RemediationBudgets[i]
		unhealthy, remediating := Unknown, Unknown
		if budget.Counted {
			unhealthy, remediating = fmt.Sprintf("%d of %d", budget.UnhealthyNodes, budget.ObservedNodes), strconv.Itoa(budget.RemediatingNodes)
		}
		cells := []Cell{Text(budget.Name), Text(unhealthy), Text(remediating), Allowance(budget.Counted, budget.RemediationsAllowed)}
		if wide {
			cells = append(cells, Text(cmp.Or(budget.MaxUnhealthy, Unknown)), Text(cmp.Or(budget.MaxConcurrent, Unknown)), Text(cmp.Or(budget.MinInterval, Unknown)))
		}
		table.Add(append(cells, BudgetState(budget))...)
	}
	return table
}

// Allowance is how many remediations a budget allows.
func Allowance(counted bool, allowed *int32) Cell {
	switch {
	case !counted:
		return Cell{Text: Unknown, Style: Faint}
	case allowed == nil:
		return Text("any")
	case *allowed == 0:
		return Cell{Text: "0", Style: Warning}
	default:
		return Text(strconv.Itoa(int(*allowed)))
	}
}

// BudgetState says which nodes a budget keeps waiting.
func BudgetState(budget *Budget) Cell {
	switch {
	case budget.Invalid != "":
		return Cell{Text: "invalid: " + budget.Invalid, Style: Bad}
	case !budget.Counted:
		return Cell{Text: "the controller has not counted yet", Style: Warning}
	case budget.Waiting != "":
		return Cell{Text: withReason(budget.Waiting, budget.Reason), Style: Bad}
	default:
		return Cell{Text: withReason("no node waits", budget.Reason), Style: Good}
	}
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ". " + reason
}

// Groups are those of the budgets that have several.
func Groups(overview *Overview) Table {
	now := overview.Time.Time
	table := Table{Title: "Groups of RemediationBudgets", Header: []string{"BUDGET", "GROUP", "UNHEALTHY", "REMEDIATING", "ALLOWED", "LAST BEGAN"}}
	for i := range overview.RemediationBudgets {
		budget := &overview.RemediationBudgets[i]
		if len(budget.Groups) < 2 {
			continue
		}
		for j := range budget.Groups {
			group := &budget.Groups[j]
			last := Unknown
			if group.LastStarted != nil {
				last = Ago(group.LastStarted, now) + " ago"
			}
			table.Add(Text(budget.Name), Text(cmp.Or(group.Name, `""`)), Text(fmt.Sprintf("%d of %d", group.UnhealthyNodes, group.ObservedNodes)),
				Text(strconv.Itoa(int(group.RemediatingNodes))), Allowance(true, group.RemediationsAllowed), Text(last))
		}
	}
	return table
}
