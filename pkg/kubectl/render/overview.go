// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Overview prints an overview, with more columns if it is wide.
func Overview(printer *terminal.Printer, overview *view.Overview, wide bool) {
	now := overview.Time.Time
	sections := sections{printer: printer}
	sections.problem(overview.Leader, now)
	sections.table("NodeHealthChecks", checks(overview))
	sections.lines(notes(overview, now))
	sections.short("Unhealthy nodes", targets(overview, now, wide), wide)
	sections.lines(eachOnALine(Shared(overview)))
	sections.short("Next to become unhealthy", next(overview, now, wide), wide)
	sections.table("MachineHealthChecks", MachineChecks(overview))
	sections.short("Unhealthy machines", machines(overview, now, wide), wide)
	sections.table("RemediationBudgets", Budgets(overview, wide))
	if wide {
		sections.table("Groups of RemediationBudgets", Groups(overview, now))
	}
	sections.lines(missing(overview.Missing))
}

// sections are separated by empty lines.
type sections struct {
	printer *terminal.Printer
	printed bool
}

func (s *sections) begin() {
	if s.printed {
		s.printer.Blank()
	}
	s.printed = true
}

func (s *sections) table(title string, table terminal.Table) {
	if len(table.Rows) == 0 {
		return
	}
	s.begin()
	s.printer.Line(0, terminal.Cell{Text: title, Style: terminal.Heading})
	s.printer.Table(table)
}

// shownRows is how many rows of a list are shown, unless the user wants all.
const shownRows = 20

// short prints the first rows of a table, and how many there are besides.
func (s *sections) short(title string, table terminal.Table, all bool) {
	more := len(table.Rows) - shownRows
	if all || more <= 0 {
		s.table(title, table)
		return
	}
	table.Rows = table.Rows[:shownRows]
	s.table(title, table)
	s.printer.Line(0, terminal.Cell{Text: fmt.Sprintf("%d more are not shown: -o wide shows all", more), Style: terminal.Faint})
}

// problem says that no controller is at work.
func (s *sections) problem(leader *view.Leader, now time.Time) {
	if problem := leader.Problem(now); problem != "" {
		s.lines([][]terminal.Cell{{{Text: problem, Style: terminal.Bad}}})
	}
}

func (s *sections) lines(lines [][]terminal.Cell) {
	if len(lines) == 0 {
		return
	}
	s.begin()
	for _, line := range lines {
		s.printer.Line(2, line...)
	}
}

// eachOnALine makes lines of cells.
func eachOnALine(cells []terminal.Cell) (lines [][]terminal.Cell) {
	for _, cell := range cells {
		lines = append(lines, []terminal.Cell{cell})
	}
	return lines
}

func checks(overview *view.Overview) terminal.Table {
	table := terminal.Table{Header: []string{"NAME", "PHASE", "HEALTHY", "UNHEALTHY", "REMEDIATING", "GATE"}}
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		healthy := unknown
		if check.Gate != nil {
			healthy = fmt.Sprintf("%d of %d", check.HealthyNodes, check.ObservedNodes)
		}
		table.Add(terminal.Text(check.Name), Phase(check.Phase), terminal.Text(healthy), terminal.Text(strconv.Itoa(check.UnhealthyNodes)),
			terminal.Text(strconv.Itoa(check.RemediatingNodes)), GateOf(check))
	}
	return table
}

// Phase says in which phase a NodeHealthCheck is.
func Phase(phase v1alpha1.Phase) terminal.Cell {
	style := terminal.Warning
	switch phase {
	case v1alpha1.PhaseEnabled:
		style = terminal.Good
	case v1alpha1.PhaseDisabled:
		style = terminal.Bad
	case v1alpha1.PhasePaused, v1alpha1.PhaseRemediating:
	case "":
		return terminal.Cell{Text: "not seen", Style: terminal.Bad}
	}
	return terminal.Cell{Text: string(phase), Style: style}
}

// GateOf says whether the gate of a NodeHealthCheck is open. Where something else lets nothing begin, nothing is.
func GateOf(check *view.Check) terminal.Cell {
	switch gate := check.EffectiveGate(); {
	case gate == nil:
		return terminal.Cell{Text: unknown, Style: terminal.Faint}
	case gate.NoNodes:
		return terminal.Cell{Text: "no nodes selected", Style: terminal.Bad}
	case gate.MaxNotHealthy < 0:
		return terminal.Cell{Text: "closed: more healthy nodes are needed than there are nodes", Style: terminal.Bad}
	case gate.Open:
		return terminal.Cell{Text: fmt.Sprintf("open: %d of at most %d not healthy", gate.NotHealthy, gate.MaxNotHealthy), Style: terminal.Good}
	default:
		return terminal.Cell{Text: fmt.Sprintf("closed: %d not healthy, at most %d may be", gate.NotHealthy, gate.MaxNotHealthy), Style: terminal.Bad}
	}
}

// notes are what holds for whole NodeHealthChecks.
func notes(overview *view.Overview, now time.Time) (lines [][]terminal.Cell) {
	if len(overview.NodeHealthChecks)+len(overview.MachineHealthChecks) == 0 && overview.Selected == "" {
		return [][]terminal.Cell{{{Text: NoChecks, Style: terminal.Warning}}}
	}
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		for _, note := range Notes(check, now) {
			lines = append(lines, []terminal.Cell{{Text: check.Name + ": ", Style: terminal.Heading}, note})
		}
	}
	return lines
}

// NoChecks says that there are no health checks.
const NoChecks = "There is no health check: nothing looks after the nodes of this cluster. Create a NodeHealthCheck, and try it with kubectl nhc simulate -f FILE."

// Notes are what holds for a whole NodeHealthCheck.
func Notes(check *view.Check, now time.Time) (notes []terminal.Cell) {
	add := func(style terminal.Style, text string) {
		notes = append(notes, terminal.Cell{Text: text, Style: style})
	}
	if check.Outdated {
		add(terminal.Warning, "the controller has not reported about the present spec yet")
	}
	if check.DryRun {
		add(terminal.Warning, "dry run: nothing is begun")
	}
	if held := check.Held; held != nil {
		add(terminal.Bad, "nothing new begins: "+withReason(Because(held.Reason, held.Message), heldNext(check)))
	}
	if check.Storm != nil {
		add(terminal.Warning, Storm(check, now))
	}
	for _, warning := range check.Warnings {
		add(terminal.Warning, warning)
	}
	if check.Phase == v1alpha1.PhaseDisabled && check.Held == nil {
		add(terminal.Bad, check.Reason)
	}
	return notes
}

// heldNext says what it takes for something to begin again.
func heldNext(check *view.Check) string {
	text := advice(v1alpha1.DecisionReason(check.Held.Reason), check.Name, "NODE")
	if check.Held.Reason == string(v1alpha1.DecidedGateClosed) {
		text = cmp.Or(opening(check.Gate, check.NotHealthy()), text)
	}
	if text == "" || check.Storm != nil { // The numbers of a storm follow.
		return ""
	}
	return "Next: " + text
}

// Storm tells about a storm with its numbers.
func Storm(check *view.Check, now time.Time) string {
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

func next(overview *view.Overview, now time.Time, wide bool) terminal.Table {
	table := terminal.Table{Header: []string{"CHECK", "NODE", "IN", "BECAUSE"}}
	if wide {
		table.Header = []string{"CHECK", "NODE", "IN", "AT", "BECAUSE"}
	}
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		for j := range check.Next {
			node := &check.Next[j]
			cells := []terminal.Cell{terminal.Text(check.Name), terminal.Text(node.Name), {Text: In(node.Unhealthy, now), Style: terminal.Warning}}
			if wide {
				at := unknown
				if node.Unhealthy != nil {
					at = Clock(node.Unhealthy, now)
				}
				cells = append(cells, terminal.Text(at))
			}
			table.Add(append(cells, terminal.Text(WhyNext(node, now)))...)
		}
	}
	return table
}

// unreported is how long the controller may take to report an unhealthy node.
const unreported = time.Minute

// WhyNext tells by which condition a node becomes unhealthy.
func WhyNext(node *view.NextNode, now time.Time) string {
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

// Shared says what nodes that fail have in common.
func Shared(overview *view.Overview) (cells []terminal.Cell) {
	for _, s := range overview.Common {
		cells = append(cells, terminal.Cell{Text: fmt.Sprintf("%d of %d nodes that fail have %s, and %d of %d others.", s.Failing, s.AllFailing, s.What, s.Others, s.AllOthers), Style: terminal.Warning})
	}
	return cells
}

func missing(kinds []view.Missing) (lines [][]terminal.Cell) {
	for _, kind := range kinds {
		lines = append(lines, []terminal.Cell{{Text: "This view is partial, without " + kind.Resource + ". ", Style: terminal.Bad}, terminal.Text(kind.Reason)})
	}
	return lines
}

// Remediations names remediation objects.
func Remediations(objects []v1alpha1.Remediation) string {
	names := make([]string, 0, len(objects))
	for i := range objects {
		names = append(names, objects[i].Resource.Kind+"/"+objects[i].Resource.Name)
	}
	if len(names) == 0 {
		return unknown
	}
	return strings.Join(names, ",")
}
