// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// timestamp is how an instant is printed in a history.
const timestamp = "2006-01-02 15:04:05"

// History prints the episodes of a history as a table, with more columns if it is wide.
func History(printer *terminal.Printer, history *view.History, wide bool) {
	now := history.Time.Time
	sections := sections{printer: printer}
	table := terminal.Table{Header: []string{"DETECTED", "CHECK", "NODE", "TOOK", "OUTCOME", "STEPS"}}
	if wide {
		table.Header = []string{"DETECTED", "CHECK", "NODE", "TRIGGER", "STARTED", "FENCED", "FINISHED", "RELEASED", "OUTCOME", "STEPS"}
	}
	for i := range history.Episodes {
		episode := &history.Episodes[i]
		cells := []terminal.Cell{terminal.Text(At(&episode.Detected, now)), terminal.Text(episode.Check), terminal.Text(episode.Target())}
		if wide {
			cells = append(cells, terminal.Text(cmp.Or(episode.Trigger, unknown)), After(episode, episode.Started), After(episode, episode.Fenced),
				After(episode, episode.Finished), After(episode, episode.Released))
		} else {
			cells = append(cells, terminal.Text(duration.HumanDuration(episode.End(now).Sub(episode.Detected.Time))))
		}
		table.Add(append(cells, Outcome(episode), terminal.Text(Steps(episode, now)))...)
	}
	if len(table.Rows) > 0 {
		sections.begin()
		printer.Table(table)
	}
	sections.lines(noEpisodes(history))
	sections.lines(full(history))
	sections.lines(missing(history.Missing))
}

// noEpisodes says that there is nothing to be shown.
// full says whose history is cut off.
func full(history *view.History) (lines [][]terminal.Cell) {
	for _, check := range history.Full {
		text := fmt.Sprintf("%s keeps %d episodes (spec.remediationHistoryLimit): older ones are not shown", check.Check, check.Kept)
		if check.Running > check.Kept {
			text += fmt.Sprintf(", nor are all of the %d that run: kubectl nhc status %s", check.Running, check.Check)
		}
		lines = append(lines, []terminal.Cell{{Text: text, Style: terminal.Faint}})
	}
	return lines
}

func noEpisodes(history *view.History) [][]terminal.Cell {
	switch {
	case len(history.Episodes) > 0:
		return nil
	case history.Since != nil:
		return [][]terminal.Cell{{terminal.Text("No node was unhealthy since " + At(history.Since, history.Time.Time) + ", as far as is recorded.")}}
	default:
		return [][]terminal.Cell{{terminal.Text("No node was unhealthy, as far as is recorded.")}}
	}
}

// At returns the date and the time of an instant.
func At(t *metav1.Time, now time.Time) string {
	if t == nil {
		return unknown
	}
	return t.In(now.Location()).Format(timestamp)
}

// After returns how long after the detection something was.
func After(episode *view.Episode, t *metav1.Time) terminal.Cell {
	if t == nil {
		return terminal.Cell{Text: unknown, Style: terminal.Faint}
	}
	return terminal.Text("+" + duration.HumanDuration(max(0, t.Sub(episode.Detected.Time))))
}

// kindOfOutcome is how outcomes are shown.
var kindOfOutcome = map[v1alpha1.EpisodeOutcome]struct {
	text   string
	letter byte
	style  terminal.Style
}{
	"":                          {"open", '>', terminal.Warning},
	v1alpha1.OutcomeRecovered:   {"recovered", 'R', terminal.Good},
	v1alpha1.OutcomeReplaced:    {"replaced", 'P', terminal.Good},
	v1alpha1.OutcomeCancelled:   {"cancelled", 'C', terminal.Faint},
	v1alpha1.OutcomeDryRun:      {"dry run", 'd', terminal.Faint},
	v1alpha1.OutcomeNodeDeleted: {"node deleted", 'D', terminal.Bad},
	view.EndUnknown:             {"closed", 'X', terminal.Bad},
	v1alpha1.OutcomeRecoveredWithoutRemediation: {"by itself", 'r', terminal.Good},
}

// Outcome says how an episode ended.
func Outcome(episode *view.Episode) terminal.Cell {
	if kind, known := kindOfOutcome[episode.Outcome]; known {
		return terminal.Cell{Text: kind.text, Style: kind.style}
	}
	return terminal.Text(string(episode.Outcome)) // Of a newer controller.
}

// Steps tells what was tried, with how long each step took.
func Steps(episode *view.Episode, now time.Time) string {
	told := make([]string, 0, len(episode.Steps))
	for i := range episode.Steps {
		step := &episode.Steps[i]
		end, result := now, "running"
		if step.Ended != nil {
			end = step.Ended.Time
		}
		if step.Result != "" {
			result = string(step.Result)
		}
		told = append(told, step.Kind+" "+result+" "+duration.HumanDuration(max(0, end.Sub(step.Started.Time))))
	}
	if episode.Replacement != "" {
		told = append(told, "replaced by "+episode.Replacement)
	}
	return cmp.Or(strings.Join(told, ", "), unknown)
}
