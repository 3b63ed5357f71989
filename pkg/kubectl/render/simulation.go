// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
)

// Simulation prints what has happened in simulated time, and then the numbers.
func Simulation(printer *terminal.Printer, result *simulation.Result) {
	sections := sections{printer: printer}
	if len(result.Timeline) == 0 {
		sections.begin()
		printer.Line(0, terminal.Text("Nothing happens: no node is unhealthy, and none fails. Have some fail with --fail."))
	} else {
		sections.begin()
		printer.Table(timelineTable(result, func(after metav1.Duration) string { return after.Duration.String() }))
	}
	sections.begin()
	for _, line := range simulated(result) {
		printer.Line(2, terminal.Text(line))
	}
	sections.notes(result)
}

// notes prints what is left out.
func (s *sections) notes(result *simulation.Result) {
	var notes [][]terminal.Cell
	for _, note := range result.Notes {
		notes = append(notes, []terminal.Cell{terminal.Text(note)})
	}
	s.lines(append(notes, missing(result.Missing)...))
}

// happenings are the styles of what happens. All else is plain.
var happenings = map[simulation.What]terminal.Style{
	simulation.Fails: terminal.Bad, simulation.Unhealthy: terminal.Bad, simulation.TimesOut: terminal.Bad, simulation.Exhausted: terminal.Bad,
	simulation.StormBegins: terminal.Bad, simulation.Waits: terminal.Warning, simulation.StormCalm: terminal.Warning,
	simulation.Recovers: terminal.Good, simulation.Ends: terminal.Good, simulation.StormEnds: terminal.Good,
}

// timelineTable has the NodeHealthChecks only if there are several. The function prints a time after
// the start.
func timelineTable(result *simulation.Result, when func(metav1.Duration) string) terminal.Table {
	several := len(result.Checks) > 1
	table := terminal.Table{Header: []string{"TIME", "NODE", "WHAT", "WHY"}}
	if several {
		table.Header = []string{"TIME", "CHECK", "NODE", "WHAT", "WHY"}
	}
	for i := range result.Timeline {
		line := &result.Timeline[i]
		row := []terminal.Cell{terminal.Text(when(line.After))}
		if several {
			row = append(row, terminal.Text(orUnknown(line.Check)))
		}
		row = append(row, terminal.Text(orUnknown(someNodes(line.Nodes))), terminal.Cell{Text: string(line.What), Style: happenings[line.What]}, terminal.Text(orUnknown(line.Why)))
		table.Add(row...)
	}
	return table
}

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

// someNodes names the first of many nodes, and says how many there are.
func someNodes(names []string) string {
	const most = 2
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// simulated returns the numbers in sentences.
func simulated(result *simulation.Result) []string {
	summary := &result.Summary
	took := fmt.Sprintf("Simulated from %s for %s, with %s and %s", result.Start.UTC().Format(time.RFC3339), result.Duration.Duration, Counted(result.Nodes, "selected node"), named("NodeHealthCheck", result.Checks))
	if len(result.Budgets) > 0 {
		took += " and " + named("RemediationBudget", result.Budgets)
	}
	lines := []string{took + "."}
	if summary.Unhealthy+summary.Remediated > 0 {
		lines = append(lines, fmt.Sprintf("Unhealthy at any time: %s. Remediated: %s, at most %d at the same time. Timed out: %s.",
			Counted(summary.Unhealthy, "node"), Counted(summary.Remediated, "node"), summary.MostAtATime, Counted(summary.TimedOut, "step")))
	}
	if wait := summary.LongestWait; wait != nil {
		lines = append(lines, fmt.Sprintf("Longest wait of an unhealthy node: %s (%s).", wait.For.Duration, wait.Node))
	}
	return append(lines, left(summary)...)
}

// left says which nodes are not healthy at the end.
func left(summary *simulation.Summary) (lines []string) {
	for _, left := range []struct {
		what  string
		nodes []string
	}{{"under remediation", summary.StillRemediated}, {"waiting", summary.StillWaiting}, {"without a step that is left", summary.StillExhausted}} {
		if len(left.nodes) > 0 {
			lines = append(lines, fmt.Sprintf("At the end, %s %s: %s.", Counted(len(left.nodes), "node"), left.what, someNodes(left.nodes)))
		}
	}
	return lines
}

// Counted is a number with its noun.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// named names objects of a kind.
func named(kind string, names []string) string {
	if len(names) == 1 {
		return kind + " " + names[0]
	}
	return kind + "s " + strings.Join(names, ", ")
}
