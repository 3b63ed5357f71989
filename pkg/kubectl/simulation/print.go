// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Print prints what has happened in simulated time, and then the numbers.
func (r *Result) Print(printer *view.Printer) {
	sections := view.Sections{Printer: printer}
	if len(r.Timeline) == 0 {
		sections.Begin()
		printer.Line(0, view.Text("Nothing happens: no node is unhealthy, and none fails. Have some fail with --fail."))
	} else {
		sections.Begin()
		printer.Table(timelineTable(r, func(after metav1.Duration) string { return after.Duration.String() }))
	}
	sections.Begin()
	for _, line := range simulated(r) {
		printer.Line(2, view.Text(line))
	}
	notes(&sections, r)
}

// notes prints what is left out.
func notes(s *view.Sections, result *Result) {
	var notes [][]view.Cell
	for _, note := range result.Notes {
		notes = append(notes, []view.Cell{view.Text(note)})
	}
	s.Lines(append(notes, view.Partial(result.Missing)...))
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
		row = append(row, view.Text(cmp.Or(someNodes(line.Nodes), view.Unknown)), view.Cell{Text: string(line.What), Style: happenings[line.What]}, view.Text(cmp.Or(line.Why, view.Unknown)))
		table.Add(row...)
	}
	return table
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
			lines = append(lines, fmt.Sprintf("At the end, %s %s: %s.", view.Counted(len(left.nodes), "node"), left.what, someNodes(left.nodes)))
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

// Print prints what a recording comes to: the differences from another configuration, or without one
// the unhealthy nodes, then the numbers. Wide also has all that happens. Times are in this location,
// with the day if it is not that of the start.
func (r *Replay) Print(printer *view.Printer, wide bool, location *time.Location) {
	sections := view.Sections{Printer: printer}
	start := r.Start.In(location)
	when := func(after metav1.Duration) string {
		return view.Clock(&metav1.Time{Time: start.Add(after.Duration)}, start)
	}
	if comparison := r.Comparison; comparison != nil {
		sections.Begin()
		for _, line := range compared(comparison, r.Summary.Remediations) {
			printer.Line(2, view.Text(line))
		}
		sections.Table("Differences from "+comparison.Against, differencesTable(comparison, when))
	} else {
		sections.Table("Unhealthy nodes", episodesTable(r.Result, when))
	}
	if wide {
		sections.Table("What happens", timelineTable(r.Result, when))
	}
	if r.Comparison != nil || len(r.Episodes) > 0 {
		sections.Table("Numbers", numbersTable(r))
	}
	sections.Begin()
	for _, line := range replayed(r, location) {
		printer.Line(2, view.Text(line))
	}
	notes(&sections, r.Result)
}

// compared says in sentences how many remediations differ.
func compared(comparison *Comparison, remediations int) (lines []string) {
	before := comparison.Summary.Remediations
	switch {
	case len(comparison.Differences) > 0:
	case before == 0:
		return []string{"No difference: no remediation would have started, as with " + comparison.Against + "."}
	case before == 1:
		return []string{"No difference: the remediation would have started at the same time."}
	case before == 2:
		return []string{"No difference: both remediations would have started at the same times."}
	default:
		return []string{fmt.Sprintf("No difference: all %d remediations would have started at the same times.", remediations)}
	}
	for _, what := range []Differs{NotStarted, Later, Earlier, OtherSteps} {
		if n := comparison.Count(what); n > 0 {
			lines = append(lines, fmt.Sprintf("%d of %s %s%s.", n, view.Counted(before, "remediation"), what, atMost(comparison, what, n)))
		}
	}
	if n := comparison.Count(Additional); n > 0 {
		lines = append(lines, view.Counted(n, "remediation")+" "+string(Additional)+".")
	}
	return lines
}

// atMost names the node for which a difference in time is the largest, if it is one in time.
func atMost(comparison *Comparison, what Differs, n int) string {
	var largest *Difference
	for i := range comparison.Differences {
		difference := &comparison.Differences[i]
		if difference.What == what && difference.By != nil && (largest == nil || difference.By.Duration > largest.By.Duration) {
			largest = difference
		}
	}
	switch {
	case largest == nil:
		return ""
	case n == 1:
		return fmt.Sprintf(" by %s (%s)", short(largest.By.Duration), largest.Node)
	}
	return fmt.Sprintf(" by up to %s (%s)", short(largest.By.Duration), largest.Node)
}

// short prints a time without fractions of a second.
func short(d time.Duration) string { return d.Round(time.Second).String() }

// differences are the words and styles of a table.
var differences = map[Differs]view.Cell{
	NotStarted: {Text: "does not start", Style: view.Warning},
	Additional: {Text: "starts, too"},
	Later:      {Text: "later", Style: view.Warning},
	Earlier:    {Text: "earlier", Style: view.Good},
	OtherSteps: {Text: "other steps"},
}

func differencesTable(comparison *Comparison, when func(metav1.Duration) string) view.Table {
	table := view.Table{Header: []string{"REMEDIATION", "NODE", "DIFFERENCE", "WHY"}}
	for i := range comparison.Differences {
		difference := &comparison.Differences[i]
		what := differences[difference.What]
		if difference.By != nil {
			what.Text = short(difference.By.Duration) + " " + what.Text
		}
		table.Add(view.Text(when(difference.After)), view.Text(difference.Node), what, view.Text(cmp.Or(difference.Why, view.Unknown)))
	}
	return table
}

// episodesTable has the NodeHealthChecks only if there are several.
func episodesTable(result *Result, when func(metav1.Duration) string) view.Table {
	several := len(result.Checks) > 1
	table := view.Table{Header: []string{"UNHEALTHY", "FOR", "NODE", "REMEDIATION", "WAITED FOR"}}
	if several {
		table.Header = slices.Insert(table.Header, 2, "CHECK")
	}
	for _, episode := range result.Episodes {
		began, lasted := view.Cell{Text: "none", Style: view.Warning}, view.Unknown
		switch {
		case episode.Began == nil:
		case *episode.Began == episode.Detected:
			began = view.Text("at once")
		default:
			began = view.Text("after " + short(episode.Began.Duration-episode.Detected.Duration))
		}
		if episode.Ended != nil {
			lasted = short(episode.Ended.Duration - episode.Detected.Duration)
		}
		row := []view.Cell{view.Text(when(episode.Detected)), view.Text(lasted)}
		if several {
			row = append(row, view.Text(episode.Check))
		}
		table.Add(append(row, view.Text(episode.Node), began, view.Text(cmp.Or(episode.Waits, view.Unknown)))...)
	}
	return table
}

// numbersTable has a row for each configuration.
func numbersTable(replay *Replay) view.Table {
	table := view.Table{Header: []string{"CONFIGURATION", "UNHEALTHY", "REMEDIATIONS", "AT A TIME", "TIMED OUT", "LONGEST WAIT"}}
	add := func(configuration string, summary *Summary) {
		wait := view.Unknown
		if longest := summary.LongestWait; longest != nil {
			wait = fmt.Sprintf("%s (%s)", short(longest.For.Duration), longest.Node)
		}
		row := []view.Cell{view.Text(configuration)}
		for _, n := range []int{summary.Unhealthy, summary.Remediations, summary.MostAtATime, summary.TimedOut} {
			row = append(row, view.Text(strconv.Itoa(n)))
		}
		table.Add(append(row, view.Text(wait))...)
	}
	if replay.Comparison != nil {
		add(replay.Comparison.Against, &replay.Comparison.Summary)
	}
	add(replay.Configuration, &replay.Summary)
	return table
}

// replayed says what was replayed, and what is left at its end.
func replayed(replay *Replay, location *time.Location) []string {
	recorded := &replay.Recorded
	what := fmt.Sprintf("Replayed %s: %s, %s, from %s for %s, with %s", recorded.File, view.Counted(recorded.Nodes, "node"), view.Counted(recorded.Changes, "change"),
		replay.Start.In(location).Format(time.RFC3339), short(replay.Duration.Duration), named("NodeHealthCheck", replay.Checks))
	if len(replay.Budgets) > 0 {
		what += " and " + named("RemediationBudget", replay.Budgets)
	}
	lines := []string{what + "."}
	if len(replay.Episodes) == 0 {
		lines = append(lines, "No node is unhealthy for these NodeHealthChecks.")
	}
	lines = append(lines, left(&replay.Summary)...)
	if recorded.Gaps > 0 {
		lines = append(lines, fmt.Sprintf("The recording is partial: nothing was recorded in %s.", view.Counted(recorded.Gaps, "interval")))
	}
	if comparison := replay.Comparison; comparison != nil && comparison.Count(NotStarted)+comparison.Count(Later) > 0 {
		lines = append(lines, "Nodes recover as they were recorded, also those that were repaired by a remediation that would have started later, or not.")
	}
	return lines
}
