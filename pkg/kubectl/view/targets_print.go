// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// UnhealthyNodes is a table of the nodes that are unhealthy or under remediation, and what they wait for. Those that
// wait for the same share a row unless the table is wide.
func UnhealthyNodes(overview *Overview, wide bool) Table {
	table := targetTable("node", "REMEDIATION", wide)
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		for _, alike := range together(check.Nodes, wide, overview.Time.Time) {
			table.Add(alike.cells(check.Name, "node", Remediations(alike.first.Remediations), wide, overview.Time.Time)...)
		}
	}
	return table
}

// UnhealthyMachines is such a table of the Machines that are not healthy.
func UnhealthyMachines(overview *Overview, wide bool) Table {
	table := targetTable("machine", "NODE", wide)
	for _, check := range overview.MachineHealthChecks {
		var targets []Target
		for i := range check.Status.UnhealthyMachines {
			targets = append(targets, newMachineTarget(&check.Status.UnhealthyMachines[i]))
		}
		for _, alike := range together(targets, wide, overview.Time.Time) {
			cells := alike.cells(check.Namespace+"/"+check.Name, "Machine", cmp.Or(alike.first.Node, Unknown), wide, overview.Time.Time)
			cells[len(cells)-1].Names = nil // They lead to no page.
			table.Add(cells...)
		}
	}
	return table
}

func targetTable(noun, last string, wide bool) Table {
	table := Table{Title: "Unhealthy " + noun + "s", Header: []string{"CHECK", strings.ToUpper(noun), "FOR", "STATE", "BECAUSE"}}
	if wide {
		table.Header = slices.Insert(table.Header, 3, "TRIGGER", last)
	}
	return table
}

// alike are targets that share a row, because the same is decided about them.
type alike struct {
	first *Target
	names []string
	// detected is the time of the first one that was detected.
	detected *metav1.Time
	why      string
}

// together returns the rows of targets. Each has a row of its own if they are apart.
func together(targets []Target, apart bool, now time.Time) (rows []*alike) {
	known := map[string]*alike{}
	for i := range targets {
		target := &targets[i]
		row := &alike{first: target, names: []string{target.Name}, detected: target.Detected, why: Why(&target.UnhealthyNode, now)}
		key := State(target.Decision).Text + row.why
		other := known[key]
		if other == nil || apart {
			known[key] = row
			rows = append(rows, row)
			continue
		}
		other.names = append(other.names, target.Name)
		if compareInstants(target.Detected, other.detected) < 0 {
			other.detected = target.Detected
		}
	}
	return rows
}

// cells are those of a row. Where there are several targets, the last cell says which.
func (a *alike) cells(check, noun, last string, wide bool, now time.Time) []Cell {
	name, because := Text(a.names[0]), Text(a.why)
	if len(a.names) > 1 {
		name = Text(Counted(len(a.names), noun))
		because = Cell{Text: Some(a.names, shownNames) + ": " + a.why, Names: a.names[:min(len(a.names), shownNames)]}
	}
	cells := []Cell{Text(check), name, Text(Ago(a.detected, now)), State(a.first.Decision), because}
	if wide {
		cells = slices.Insert(cells, 3, Text(cmp.Or(triggerText(a.first.Trigger), Unknown)), Text(last))
	}
	return cells
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
func Why(entry *v1alpha1.UnhealthyNode, now time.Time) string {
	text := Unknown
	if decision := entry.Decision; decision != nil {
		text = Because(string(decision.Reason), decision.Message)
		if until := decision.NextCheckTime; until != nil {
			word := "until"
			if decision.Reason == v1alpha1.DecidedStepRunning {
				word = "times out at"
			}
			text += fmt.Sprintf("; %s %s (%s)", word, Clock(until, now), In(until, now))
		}
	}
	if entry.ConditionsHealthyTimestamp != nil {
		text += "; healthy for " + Ago(entry.ConditionsHealthyTimestamp, now)
	}
	return text
}

// MachineChecks is a table of the MachineHealthChecks.
func MachineChecks(overview *Overview) Table {
	table := Table{Title: "MachineHealthChecks", Header: []string{"NAME", "HEALTHY", "ALLOWED", "LIMIT"}}
	for _, check := range overview.MachineHealthChecks {
		status, healthy, allowed := &check.Status, Unknown, Unknown
		if status.ExpectedMachines != nil && status.CurrentHealthy != nil {
			healthy = fmt.Sprintf("%d of %d", *status.CurrentHealthy, *status.ExpectedMachines)
		}
		if status.RemediationsAllowed != nil {
			allowed = strconv.Itoa(int(*status.RemediationsAllowed))
		}
		limit := Text("maxUnhealthy " + orNone((*intstr.IntOrString)(check.Spec.MaxUnhealthy), "100%"))
		if held := heldMachines(check); held != nil {
			limit = Cell{Text: "nothing new begins: " + Because(held.Reason, held.Message), Style: Bad}
		}
		table.Add(Text(check.Namespace+"/"+check.Name), Text(healthy), Text(allowed), limit)
	}
	return table
}

// orNone returns a limit of a spec, or what stands for none.
func orNone(limit *intstr.IntOrString, none string) string {
	if limit == nil {
		return none
	}
	return limit.String()
}

// Budgets is a table of the RemediationBudgets, with more columns if it is wide.
func Budgets(overview *Overview, wide bool) Table {
	table := Table{Title: "RemediationBudgets", Header: []string{"NAME", "NOT HEALTHY", "REMEDIATING", "ALLOWED", "STATE"}}
	if wide {
		table.Header = []string{"NAME", "NOT HEALTHY", "REMEDIATING", "ALLOWED", "MAXUNHEALTHY", "MAXCONCURRENT", "MININTERVAL", "STATE"}
	}
	for _, budget := range overview.RemediationBudgets {
		spec, status, counted := &budget.Spec, &budget.Status, budget.Status.ObservedNodes != nil
		unhealthy, remediating := Unknown, Unknown
		if counted {
			unhealthy, remediating = fmt.Sprintf("%d of %d", value(status.NotHealthyNodes), value(status.ObservedNodes)), strconv.Itoa(value(status.RemediatingNodes))
		}
		cells := []Cell{Text(budget.Name), Text(unhealthy), Text(remediating), allowance(counted, status.RemediationsAllowed)}
		if wide {
			interval := Unknown
			if spec.MinInterval != nil {
				interval = spec.MinInterval.Duration.String()
			}
			cells = append(cells, Text(orNone(spec.MaxUnhealthy, Unknown)), Text(orNone(spec.MaxConcurrent, Unknown)), Text(interval))
		}
		table.Add(append(cells, budgetState(budget))...)
	}
	return table
}

// allowance is how many remediations a budget allows.
func allowance(counted bool, allowed *int32) Cell {
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

// budgetState says which nodes a budget keeps waiting.
func budgetState(budget *nhcv1alpha1.RemediationBudget) Cell {
	valid := meta.FindStatusCondition(budget.Status.Conditions, nhcv1alpha1.ConditionBudgetValid)
	exhausted := meta.FindStatusCondition(budget.Status.Conditions, nhcv1alpha1.ConditionBudgetExhausted)
	switch {
	case valid != nil && valid.Status == metav1.ConditionFalse:
		return Cell{Text: "invalid: " + valid.Message, Style: Bad}
	case budget.Status.ObservedNodes == nil:
		return Cell{Text: "the controller has not counted yet", Style: Warning}
	case exhausted != nil && exhausted.Status == metav1.ConditionTrue:
		return Cell{Text: withReason(exhausted.Message, budget.Spec.Reason), Style: Bad}
	default:
		return Cell{Text: withReason("no node waits", budget.Spec.Reason), Style: Good}
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
	table := Table{Title: "Groups of RemediationBudgets", Header: []string{"BUDGET", "GROUP", "NOT HEALTHY", "REMEDIATING", "ALLOWED", "LAST BEGAN"}}
	for _, budget := range overview.RemediationBudgets {
		groups := budget.Status.Groups
		for i := range groups {
			if len(groups) < 2 {
				break
			}
			group := &groups[i]
			last := Unknown
			if group.LastStarted != nil {
				last = Ago(group.LastStarted, now) + " ago"
			}
			table.Add(Text(budget.Name), Text(cmp.Or(group.Name, `""`)), Text(fmt.Sprintf("%d of %d", group.NotHealthyNodes, group.ObservedNodes)),
				Text(strconv.Itoa(int(group.RemediatingNodes))), allowance(true, group.RemediationsAllowed), Text(last))
		}
	}
	return table
}
