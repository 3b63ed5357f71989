// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// timestamp is how an instant is printed in a history.
const timestamp = "2006-01-02 15:04:05"

// Print prints the episodes of a history as a table, with more columns if it is wide.
func (h *History) Print(printer *Printer, wide bool) {
	now := h.Time.Time
	sections := Sections{Printer: printer}
	table := Table{Header: []string{"DETECTED", "CHECK", "NODE", "TOOK", "OUTCOME", "STEPS"}}
	if wide {
		table.Header = []string{"DETECTED", "CHECK", "NODE", "TRIGGER", "STARTED", "FENCED", "FINISHED", "RELEASED", "OUTCOME", "STEPS"}
	}
	for i := range h.Episodes {
		episode := &h.Episodes[i]
		cells := []Cell{Text(At(&episode.Detected, now)), Text(episode.Check), Text(episode.Target())}
		if wide {
			cells = append(cells, Text(cmp.Or(episode.Trigger, Unknown)), After(episode, episode.Started), After(episode, episode.Fenced),
				After(episode, episode.Finished), After(episode, episode.Released))
		} else {
			cells = append(cells, Text(duration.HumanDuration(episode.End(now).Sub(episode.Detected.Time))))
		}
		table.Add(append(cells, Outcome(episode), Text(Steps(episode, now)))...)
	}
	if len(table.Rows) > 0 {
		sections.Begin()
		printer.Table(table)
	}
	sections.Lines(noEpisodes(h))
	sections.Lines(full(h))
	sections.Lines(Partial(h.Missing))
}

// full says whose history is cut off.
func full(history *History) (lines [][]Cell) {
	for _, check := range history.Full {
		text := fmt.Sprintf("%s keeps %d episodes (spec.remediationHistoryLimit): older ones are not shown", check.Check, check.Kept)
		if check.Running > check.Kept {
			text += fmt.Sprintf(", nor are all of the %d that run: kubectl nhc status %s", check.Running, check.Check)
		}
		lines = append(lines, []Cell{{Text: text, Style: Faint}})
	}
	return lines
}

// noEpisodes says that there is nothing to be shown.
func noEpisodes(history *History) [][]Cell {
	switch {
	case len(history.Episodes) > 0:
		return nil
	case history.Since != nil:
		return [][]Cell{{Text("No node was unhealthy since " + At(history.Since, history.Time.Time) + ", as far as is recorded.")}}
	default:
		return [][]Cell{{Text("No node was unhealthy, as far as is recorded.")}}
	}
}

// At returns the date and the time of an instant.
func At(t *metav1.Time, now time.Time) string {
	if t == nil {
		return Unknown
	}
	return t.In(now.Location()).Format(timestamp)
}

// After returns how long after the detection something was.
func After(episode *Episode, t *metav1.Time) Cell {
	if t == nil {
		return Cell{Text: Unknown, Style: Faint}
	}
	return Text("+" + duration.HumanDuration(max(0, t.Sub(episode.Detected.Time))))
}

// kindOfOutcome is how outcomes are shown.
var kindOfOutcome = map[v1alpha1.EpisodeOutcome]struct {
	text   string
	letter byte
	style  Style
}{
	"":                          {"open", '>', Warning},
	v1alpha1.OutcomeRecovered:   {"recovered", 'R', Good},
	v1alpha1.OutcomeReplaced:    {"replaced", 'P', Good},
	v1alpha1.OutcomeCancelled:   {"cancelled", 'C', Faint},
	v1alpha1.OutcomeDryRun:      {"dry run", 'd', Faint},
	v1alpha1.OutcomeNodeDeleted: {"node deleted", 'D', Bad},
	EndUnknown:                  {"closed", 'X', Bad},
	v1alpha1.OutcomeRecoveredWithoutRemediation: {"by itself", 'r', Good},
}

// Outcome says how an episode ended.
func Outcome(episode *Episode) Cell {
	if kind, known := kindOfOutcome[episode.Outcome]; known {
		return Cell{Text: kind.text, Style: kind.style}
	}
	return Text(string(episode.Outcome)) // Of a newer controller.
}

// Steps tells what was tried, with how long each step took.
func Steps(episode *Episode, now time.Time) string {
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
	return cmp.Or(strings.Join(told, ", "), Unknown)
}
