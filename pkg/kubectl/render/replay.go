// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
)

// Replay prints what a recording comes to: the differences from another configuration, or without one
// the unhealthy nodes, then the numbers. Wide also has all that happens. Times are in this location,
// with the day if it is not that of the start.
func Replay(printer *terminal.Printer, replay *simulation.Replay, wide bool, location *time.Location) {
	sections := sections{printer: printer}
	start := replay.Start.In(location)
	when := func(after metav1.Duration) string { return Clock(&metav1.Time{Time: start.Add(after.Duration)}, start) }
	if comparison := replay.Comparison; comparison != nil {
		sections.begin()
		for _, line := range compared(comparison, replay.Summary.Remediations) {
			printer.Line(2, terminal.Text(line))
		}
		sections.table("Differences from "+comparison.Against, differencesTable(comparison, when))
	} else {
		sections.table("Unhealthy nodes", episodesTable(replay.Result, when))
	}
	if wide {
		sections.table("What happens", timelineTable(replay.Result, when))
	}
	if replay.Comparison != nil || len(replay.Episodes) > 0 {
		sections.table("Numbers", numbersTable(replay))
	}
	sections.begin()
	for _, line := range replayed(replay, location) {
		printer.Line(2, terminal.Text(line))
	}
	sections.notes(replay.Result)
}

// compared says in sentences how many remediations differ.
func compared(comparison *simulation.Comparison, remediations int) (lines []string) {
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
	for _, what := range []simulation.Differs{simulation.NotStarted, simulation.Later, simulation.Earlier, simulation.OtherSteps} {
		if n := comparison.Count(what); n > 0 {
			lines = append(lines, fmt.Sprintf("%d of %s %s%s.", n, Counted(before, "remediation"), what, atMost(comparison, what, n)))
		}
	}
	if n := comparison.Count(simulation.Additional); n > 0 {
		lines = append(lines, Counted(n, "remediation")+" "+string(simulation.Additional)+".")
	}
	return lines
}

// atMost names the node for which a difference in time is the largest, if it is one in time.
func atMost(comparison *simulation.Comparison, what simulation.Differs, n int) string {
	var largest *simulation.Difference
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
var differences = map[simulation.Differs]terminal.Cell{
	simulation.NotStarted: {Text: "does not start", Style: terminal.Warning},
	simulation.Additional: {Text: "starts, too"},
	simulation.Later:      {Text: "later", Style: terminal.Warning},
	simulation.Earlier:    {Text: "earlier", Style: terminal.Good},
	simulation.OtherSteps: {Text: "other steps"},
}

func differencesTable(comparison *simulation.Comparison, when func(metav1.Duration) string) terminal.Table {
	table := terminal.Table{Header: []string{"REMEDIATION", "NODE", "DIFFERENCE", "WHY"}}
	for i := range comparison.Differences {
		difference := &comparison.Differences[i]
		what := differences[difference.What]
		if difference.By != nil {
			what.Text = short(difference.By.Duration) + " " + what.Text
		}
		table.Add(terminal.Text(when(difference.After)), terminal.Text(difference.Node), what, terminal.Text(orUnknown(difference.Why)))
	}
	return table
}

// episodesTable has the NodeHealthChecks only if there are several.
func episodesTable(result *simulation.Result, when func(metav1.Duration) string) terminal.Table {
	several := len(result.Checks) > 1
	table := terminal.Table{Header: []string{"UNHEALTHY", "FOR", "NODE", "REMEDIATION", "WAITED FOR"}}
	if several {
		table.Header = slices.Insert(table.Header, 2, "CHECK")
	}
	for _, episode := range result.Episodes {
		began, lasted := terminal.Cell{Text: "none", Style: terminal.Warning}, unknown
		switch {
		case episode.Began == nil:
		case *episode.Began == episode.Detected:
			began = terminal.Text("at once")
		default:
			began = terminal.Text("after " + short(episode.Began.Duration-episode.Detected.Duration))
		}
		if episode.Ended != nil {
			lasted = short(episode.Ended.Duration - episode.Detected.Duration)
		}
		row := []terminal.Cell{terminal.Text(when(episode.Detected)), terminal.Text(lasted)}
		if several {
			row = append(row, terminal.Text(episode.Check))
		}
		table.Add(append(row, terminal.Text(episode.Node), began, terminal.Text(orUnknown(episode.Waits)))...)
	}
	return table
}

// numbersTable has a row for each configuration.
func numbersTable(replay *simulation.Replay) terminal.Table {
	table := terminal.Table{Header: []string{"CONFIGURATION", "UNHEALTHY", "REMEDIATIONS", "AT A TIME", "TIMED OUT", "LONGEST WAIT"}}
	add := func(configuration string, summary *simulation.Summary) {
		wait := unknown
		if longest := summary.LongestWait; longest != nil {
			wait = fmt.Sprintf("%s (%s)", short(longest.For.Duration), longest.Node)
		}
		row := []terminal.Cell{terminal.Text(configuration)}
		for _, n := range []int{summary.Unhealthy, summary.Remediations, summary.MostAtATime, summary.TimedOut} {
			row = append(row, terminal.Text(strconv.Itoa(n)))
		}
		table.Add(append(row, terminal.Text(wait))...)
	}
	if replay.Comparison != nil {
		add(replay.Comparison.Against, &replay.Comparison.Summary)
	}
	add(replay.Configuration, &replay.Summary)
	return table
}

// replayed says what was replayed, and what is left at its end.
func replayed(replay *simulation.Replay, location *time.Location) []string {
	recorded := &replay.Recorded
	what := fmt.Sprintf("Replayed %s: %s, %s, from %s for %s, with %s", recorded.File, Counted(recorded.Nodes, "node"), Counted(recorded.Changes, "change"),
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
		lines = append(lines, fmt.Sprintf("The recording is partial: nothing was recorded in %s.", Counted(recorded.Gaps, "interval")))
	}
	if comparison := replay.Comparison; comparison != nil && comparison.Count(simulation.NotStarted)+comparison.Count(simulation.Later) > 0 {
		lines = append(lines, "Nodes recover as they were recorded, also those that were repaired by a remediation that would have started later, or not.")
	}
	return lines
}
