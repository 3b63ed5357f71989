// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Print prints what has happened, and then the numbers. Times are those after the start; those of a recording are in
// a location, with the day if it is not that of the start.
func (r *Result) Print(printer *view.Printer, recorded *time.Location) {
	sections := view.Sections{Printer: printer}
	when := func(after metav1.Duration) string { return after.Duration.String() }
	if recorded != nil {
		start := r.Start.In(recorded)
		when = func(after metav1.Duration) string {
			return view.Clock(&metav1.Time{Time: start.Add(after.Duration)}, start)
		}
	}
	timeline := timelineTable(r, when)
	sections.Tables(timeline)
	switch {
	case len(timeline.Rows) > 0:
	case recorded != nil:
		sections.Lines(view.Lines("Nothing happens: no node is unhealthy for these NodeHealthChecks."))
	default:
		sections.Lines(view.Lines("Nothing happens: no node is unhealthy, and none fails. Have some fail with --fail."))
	}
	sections.Lines(view.Lines(simulated(r)...))
	sections.Lines(append(view.Lines(r.Notes...), view.Partial(r.Missing)...))
}

// happenings are the styles of what happens. All else is plain.
var happenings = map[What]view.Style{
	Fails: view.Bad, Unhealthy: view.Bad, TimesOut: view.Bad, Exhausted: view.Bad,
	StormBegins: view.Bad, Waits: view.Warning, StormCalm: view.Warning,
	Recovers: view.Good, Ends: view.Good, StormEnds: view.Good,
}

// timelineTable has the NodeHealthChecks only if there are several. The function prints a time after
// the start.
func timelineTable(result *Result, when func(metav1.Duration) string) view.Table {
	several := len(result.Checks) > 1
	table := view.Table{Header: []string{"TIME", "NODE", "WHAT", "WHY"}}
	if several {
		table.Header = []string{"TIME", "CHECK", "NODE", "WHAT", "WHY"}
	}
	for i := range result.Timeline {
		line := &result.Timeline[i]
		row := []view.Cell{view.Text(when(line.After))}
		if several {
			row = append(row, view.Text(cmp.Or(line.Check, view.Unknown)))
		}
		row = append(row, view.Text(cmp.Or(view.Some(line.Nodes, someNodes), view.Unknown)), view.Cell{Text: string(line.What), Style: happenings[line.What]}, view.Text(cmp.Or(line.Why, view.Unknown)))
		table.Add(row...)
	}
	return table
}

// someNodes is how many nodes a line names.
const someNodes = 3

// simulated returns the numbers in sentences.
func simulated(result *Result) []string {
	summary := &result.Summary
	took := fmt.Sprintf("Simulated from %s for %s, with %s and %s", result.Start.UTC().Format(time.RFC3339), result.Duration.Duration, view.Counted(result.Nodes, "selected node"), named("NodeHealthCheck", result.Checks))
	if len(result.Budgets) > 0 {
		took += " and " + named("RemediationBudget", result.Budgets)
	}
	lines := []string{took + "."}
	if summary.Unhealthy+summary.Remediated > 0 {
		lines = append(lines, fmt.Sprintf("Unhealthy at any time: %s. Remediated: %s, at most %d at the same time. Timed out: %s.",
			view.Counted(summary.Unhealthy, "node"), view.Counted(summary.Remediated, "node"), summary.MostAtATime, view.Counted(summary.TimedOut, "step")))
	}
	if wait := summary.LongestWait; wait != nil {
		lines = append(lines, fmt.Sprintf("Longest wait of an unhealthy node: %s (%s).", wait.For.Duration, wait.Node))
	}
	return append(lines, left(summary)...)
}

// left says which nodes are not healthy at the end.
func left(summary *Summary) (lines []string) {
	for _, left := range []struct {
		what  string
		nodes []string
	}{{"under remediation", summary.StillRemediated}, {"waiting", summary.StillWaiting}, {"without a step that is left", summary.StillExhausted}} {
		if len(left.nodes) > 0 {
			lines = append(lines, fmt.Sprintf("At the end, %s %s: %s.", view.Counted(len(left.nodes), "node"), left.what, view.Some(left.nodes, someNodes)))
		}
	}
	return lines
}

// named names objects of a kind.
func named(kind string, names []string) string {
	if len(names) == 1 {
		return kind + " " + names[0]
	}
	return kind + "s " + strings.Join(names, ", ")
}
