// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Print prints an overview, with more columns if it is wide.
func (o *Overview) Print(printer *Printer, wide bool) {
	now := o.Time.Time
	sections := Sections{Printer: printer}
	sections.Lines(o.stops())
	sections.problem(o.Leader, now)
	sections.Tables(checks(o))
	sections.Lines(checkNotes(o, now))
	sections.short(UnhealthyNodes(o, wide), wide)
	sections.Lines(eachOnALine(InCommon(o)))
	sections.short(NextNodes(o, wide), wide)
	sections.Tables(MachineChecks(o))
	sections.short(UnhealthyMachines(o, wide), wide)
	sections.Tables(Budgets(o, wide))
	if wide {
		sections.Tables(Groups(o))
	}
	sections.Lines(Partial(o.Missing))
}

func checks(overview *Overview) Table {
	table := Table{Title: "NodeHealthChecks", Header: []string{"NAME", "STATE", "HEALTHY", "UNHEALTHY", "REMEDIATING", "GATE"}}
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		healthy := Unknown
		if check.Gate != nil {
			healthy = fmt.Sprintf("%d of %d", check.HealthyNodes, check.ObservedNodes)
		}
		table.Add(Text(check.Name), StateOf(check), Text(healthy), Text(strconv.Itoa(check.UnhealthyNodes)),
			Text(strconv.Itoa(check.RemediatingNodes)), GateOf(check))
	}
	return table
}

// StateOf says in a word how a NodeHealthCheck is: the worst of its phase, its gate, a storm and a stop.
func StateOf(check *Check) Cell {
	gate := check.EffectiveGate()
	switch {
	case check.Phase == "":
		return Cell{Text: "not seen", Style: Bad}
	case check.Phase == v1alpha1.PhaseDisabled:
		return Cell{Text: string(check.Phase), Style: Bad}
	case check.Stopped != "":
		return Cell{Text: "Stopped", Style: Bad}
	case gate != nil && !gate.Open:
		return Cell{Text: "Gate closed", Style: Bad}
	case gate != nil && check.Storm != nil:
		return Cell{Text: "Storm", Style: Warning}
	case check.Phase == v1alpha1.PhaseEnabled:
		return Cell{Text: string(check.Phase), Style: Good}
	default:
		return Cell{Text: string(check.Phase), Style: Warning}
	}
}

// GateOf says whether the gate of a NodeHealthCheck is open. Where something else lets nothing begin, nothing is.
func GateOf(check *Check) Cell {
	switch gate := check.EffectiveGate(); {
	case check.Stopped != "":
		return Cell{Text: "stopped", Style: Bad}
	case gate == nil:
		return Cell{Text: Unknown, Style: Faint}
	case gate.NoNodes:
		return Cell{Text: "no nodes selected", Style: Bad}
	case gate.MaxNotHealthy < 0:
		return Cell{Text: "closed: more healthy nodes are needed than there are nodes", Style: Bad}
	case gate.Open:
		return Cell{Text: fmt.Sprintf("open: %d of at most %d not healthy", gate.NotHealthy, gate.MaxNotHealthy), Style: Good}
	default:
		return Cell{Text: fmt.Sprintf("closed: %d not healthy, at most %d may be", gate.NotHealthy, gate.MaxNotHealthy), Style: Bad}
	}
}

// checkNotes are what holds for whole NodeHealthChecks.
func checkNotes(overview *Overview, now time.Time) (lines [][]Cell) {
	if len(overview.NodeHealthChecks)+len(overview.MachineHealthChecks) == 0 && overview.Selected == "" {
		return [][]Cell{{{Text: NoChecks, Style: Warning}}}
	}
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		for _, note := range Notes(check, true, now) {
			lines = append(lines, []Cell{{Text: check.Name + ": ", Style: Heading}, note})
		}
	}
	return lines
}

// NoChecks says that there are no health checks.
const NoChecks = "There is no health check: nothing looks after the nodes of this cluster. Create a NodeHealthCheck, and try it with kubectl nhc simulate -f FILE."

// Notes are what holds for a whole NodeHealthCheck, and what is next if that is wanted. A stop of everything stands
// above all.
func Notes(check *Check, next bool, now time.Time) (notes []Cell) {
	add := func(style Style, text string) {
		notes = append(notes, Cell{Text: text, Style: style})
	}
	if check.Outdated {
		add(Warning, "the controller has not reported about the present spec yet")
	}
	if check.DryRun {
		add(Warning, "dry run: nothing is begun")
	}
	if held := check.Held; held != nil {
		reason := strings.TrimPrefix(held.Reason, v1alpha1.ReasonClosed) // Its message says as much.
		text := "nothing new begins: " + Because(reason, held.Message)
		if next {
			text = withReason(text, heldNext(check))
		}
		add(Bad, text)
	}
	if check.Storm != nil {
		add(Warning, StormOf(check, now))
	}
	for _, warning := range check.Warnings {
		add(Warning, warning)
	}
	if check.Phase == v1alpha1.PhaseDisabled && check.Held == nil {
		add(Bad, check.Reason)
	}
	return notes
}

// heldNext says what it takes for something to begin again.
func heldNext(check *Check) string {
	text := advice(v1alpha1.DecisionReason(check.Held.Reason), check.Name, "NODE")
	if check.Held.Reason == v1alpha1.ReasonClosed {
		text = cmp.Or(opening(check.Gate, check.NotHealthy()), text)
	}
	if text == "" || check.Storm != nil { // The numbers of a storm follow.
		return ""
	}
	return "Next: " + text
}

// StormOf tells about a storm with its numbers.
func StormOf(check *Check, now time.Time) string {
	text := "storm recovery since " + SinceWhen(check.Storm.Since, now)
	if check.Gate != nil && check.Storm.CalmAt != nil {
		text += fmt.Sprintf(": %d not healthy, calm at %d", check.Gate.NotHealthy, *check.Storm.CalmAt)
	}
	switch {
	case check.Storm.End != nil:
		text += fmt.Sprintf("; calm for %s, ends at %s (in %s) if it stays calm", Ago(check.Storm.CalmSince, now), Clock(check.Storm.End, now), In(check.Storm.End, now))
	case check.Storm.CalmSince != nil:
		text += "; calm for " + Ago(check.Storm.CalmSince, now)
	default:
		text += "; not calm yet"
	}
	return text
}

// Because joins a reason and its message.
func Because(reason, message string) string {
	if message == "" {
		return reason
	}
	if reason == "" || strings.HasPrefix(message, reason+":") {
		return message
	}
	return reason + ": " + message
}

// NextNodes is a table of the nodes that are next, with more columns if it is wide.
func NextNodes(overview *Overview, wide bool) Table {
	now := overview.Time.Time
	table := Table{Title: "Next to become unhealthy", Header: []string{"CHECK", "NODE", "IN", "BECAUSE"}}
	if wide {
		table.Header = []string{"CHECK", "NODE", "IN", "AT", "BECAUSE"}
	}
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		for j := range check.Next {
			node := &check.Next[j]
			cells := []Cell{Text(check.Name), Text(node.Name), {Text: In(node.Unhealthy, now), Style: Warning}}
			if wide {
				at := Unknown
				if node.Unhealthy != nil {
					at = Clock(node.Unhealthy, now)
				}
				cells = append(cells, Text(at))
			}
			table.Add(append(cells, Text(WhyNext(node, now)))...)
		}
	}
	return table
}

// unreported is how long the controller may take to report an unhealthy node.
const unreported = time.Minute

// WhyNext tells by which condition a node becomes unhealthy.
func WhyNext(node *NextNode, now time.Time) string {
	text := node.Condition
	if node.Since != nil {
		text += " for " + Ago(node.Since, now)
	}
	if node.Doubt != "" {
		text += " (" + node.Doubt + ")"
	}
	if node.Reason != "" {
		text += " (" + node.Reason + ")"
	}
	switch {
	case node.Unhealthy == nil:
		text += ", without lastTransitionTime: the controller cannot know how long it has lasted"
	case now.Sub(node.Unhealthy.Time) >= unreported && node.AtWork:
		text += ", but the controller, which is at work, has not reported it: it may have seen the clock of its reporter go back"
	case now.Sub(node.Unhealthy.Time) >= unreported:
		text += ", unhealthy for " + Ago(node.Unhealthy, now) + ", but the controller has not reported it: is it running?"
	case !node.Unhealthy.After(now):
		text += ", not reported by the controller yet"
	case node.Remediating:
		text += ", still under remediation"
	}
	return text
}

// InCommon says what nodes that fail have in common.
func InCommon(overview *Overview) (cells []Cell) {
	for _, s := range overview.Common {
		cells = append(cells, Cell{Text: fmt.Sprintf("%d of %d nodes that fail have %s, and %d of %d others.", s.Failing, s.AllFailing, s.What, s.Others, s.AllOthers), Style: Warning})
	}
	return cells
}

// Remediations names remediation objects.
func Remediations(objects []v1alpha1.Remediation) string {
	names := make([]string, 0, len(objects))
	for i := range objects {
		names = append(names, objects[i].Resource.Kind+"/"+objects[i].Resource.Name)
	}
	if len(names) == 0 {
		return Unknown
	}
	return strings.Join(names, ",")
}
