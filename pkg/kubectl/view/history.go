// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// History has the past episodes.
type History struct {
	// Time is the instant at which it holds, and Since its beginning, absent if it is all that
	// is known.
	Time  metav1.Time  `json:"time"`
	Since *metav1.Time `json:"since,omitempty"`
	// Until is when the last episode may have been detected, absent if it is now.
	Until *metav1.Time `json:"until,omitempty"`
	// Episodes are in order of their detection, the newest first.
	Episodes []Episode `json:"episodes"`
	// Missing is not empty if the history is partial.
	Missing []Missing `json:"missing,omitempty"`
}

// Episode is one episode of a node, or one remediation of a Machine in the same form.
type Episode struct {
	// Check is the name of the health check, namespace/name for a MachineHealthCheck.
	Check string `json:"check"`
	// Machine is the Machine of a remediation. One without a node has only this name.
	Machine          string `json:"machine,omitempty"`
	v1alpha1.Episode `json:",inline"`
	// Replacement is the Machine that replaces the one that was deleted.
	Replacement string `json:"replacement,omitempty"`
}

// Open reports whether the episode goes on.
func (e *Episode) Open() bool { return e.Outcome == "" }

// Target returns the name of what was remediated.
func (e *Episode) Target() string { return cmp.Or(e.Node, e.Machine) }

// End returns when the episode ended, and now if it goes on.
func (e *Episode) End(now time.Time) time.Time {
	switch {
	case e.Finished != nil:
		return e.Finished.Time
	case e.Released != nil:
		return e.Released.Time
	case e.Open():
		return now
	}
	end := e.Detected.Time
	for i := range e.Steps {
		if ended := e.Steps[i].Ended; ended != nil && ended.After(end) {
			end = ended.Time
		}
	}
	return end
}

// EndUnknown is the outcome of a remediation of a Machine whose end was never seen.
const EndUnknown v1alpha1.EpisodeOutcome = "Closed"

// Filter says which episodes to show. An empty field selects all.
type Filter struct {
	Check, Node string
	// Outcome is one of the outcomes, or Open.
	Outcome v1alpha1.EpisodeOutcome
	// Since leaves out what ended before, and Until what was detected later.
	Since, Until time.Time
}

// Open stands in a Filter for the outcome of episodes that go on.
const Open v1alpha1.EpisodeOutcome = "Open"

func (f *Filter) selects(episode *Episode, now time.Time) bool {
	return (f.Check == "" || f.Check == episode.Check) && (f.Node == "" || f.Node == episode.Node || f.Node == episode.Machine) &&
		(f.Outcome == "" || f.Outcome == cmp.Or(episode.Outcome, Open)) &&
		!episode.End(now).Before(f.Since) && (f.Until.IsZero() || !episode.Detected.After(f.Until))
}

// NewHistory returns the episodes of a snapshot that a filter selects.
func NewHistory(snapshot *Snapshot, filter Filter, now time.Time) *History {
	history := &History{Time: metav1.NewTime(now), Since: instant(filter.Since), Until: instant(filter.Until), Episodes: []Episode{}, Missing: snapshot.Missing}
	add := func(episode Episode) {
		if filter.selects(&episode, now) {
			history.Episodes = append(history.Episodes, episode)
		}
	}
	for _, nhc := range snapshot.NodeHealthChecks {
		for i := range nhc.Status.RemediationHistory {
			add(Episode{Check: nhc.Name, Episode: nhc.Status.RemediationHistory[i]})
		}
	}
	for _, mhc := range snapshot.MachineHealthChecks {
		for i := range mhc.Status.RemediationHistory {
			add(newMachineEpisode(mhc.Namespace+"/"+mhc.Name, &mhc.Status.RemediationHistory[i]))
		}
	}
	slices.SortStableFunc(history.Episodes, func(a, b Episode) int {
		return cmp.Or(b.Detected.Compare(a.Detected.Time), cmp.Compare(a.Target(), b.Target()))
	})
	return history
}

func newMachineEpisode(check string, remediation *machinev1beta1.Remediation) Episode {
	shown := Episode{Check: check, Machine: remediation.Machine, Replacement: remediation.Replacement, Episode: v1alpha1.Episode{
		Detected: remediation.Detected, Started: remediation.Started, Fenced: remediation.Fenced, Finished: remediation.Finished, Released: remediation.Closed,
		Trigger: &v1alpha1.Trigger{Type: remediation.ConditionType, Status: remediation.ConditionStatus, Reason: remediation.Reason},
	}}
	switch remediation.TargetKind {
	case "Node":
		shown.Node = remediation.TargetName
	default:
		shown.Machine = cmp.Or(shown.Machine, remediation.TargetName)
	}
	switch {
	case remediation.Finished != nil && remediation.Replacement != "":
		shown.Outcome = v1alpha1.OutcomeReplaced
	case remediation.Finished != nil:
		shown.Outcome = v1alpha1.OutcomeRecovered
	case remediation.Closed != nil:
		shown.Outcome = EndUnknown
	}
	return shown
}

// Checks returns the names of all health checks of a snapshot, also of those without history.
func Checks(snapshot *Snapshot) []string {
	var names []string
	for _, nhc := range snapshot.NodeHealthChecks {
		names = append(names, nhc.Name)
	}
	for _, mhc := range snapshot.MachineHealthChecks {
		names = append(names, mhc.Namespace+"/"+mhc.Name)
	}
	return names
}

// Table is a table of the episodes, with more columns if it is wide.
func (h *History) Table(wide bool) Table {
	now := h.Time.Time
	table := Table{Title: "Episodes", Header: []string{"DETECTED", "CHECK", "NODE", "TOOK", "OUTCOME", "STEPS"}}
	if wide {
		table.Header = []string{"DETECTED", "CHECK", "NODE", "TRIGGER", "STARTED", "FENCED", "FINISHED", "RELEASED", "OUTCOME", "STEPS"}
	}
	for i := range h.Episodes {
		episode := &h.Episodes[i]
		cells := []Cell{Text(At(&episode.Detected, now)), Text(episode.Check), Text(episode.Target())}
		if wide {
			cells = append(cells, Text(cmp.Or(triggerText(episode.Trigger), Unknown)), After(episode, episode.Started), After(episode, episode.Fenced),
				After(episode, episode.Finished), After(episode, episode.Released))
		} else {
			cells = append(cells, Text(duration.HumanDuration(episode.End(now).Sub(episode.Detected.Time))))
		}
		table.Add(append(cells, Outcome(episode.Outcome), Text(tried(episode, now)))...)
	}
	return table
}

// Print prints the episodes of a history, with more columns if it is wide.
func (h *History) Print(printer *Printer, wide bool) {
	sections := Sections{Printer: printer}
	table := h.Table(wide)
	table.Title = ""
	sections.Tables(table)
	sections.Lines(h.note())
	sections.Lines(Partial(h.Missing))
}

// note says that there is nothing to be shown, or that there may be more.
func (h *History) note() [][]Cell {
	switch {
	case len(h.Episodes) > 0:
		return [][]Cell{{{Text: "Status keeps the last episodes of each health check: spec.remediationHistoryLimit.", Style: Faint}}}
	case h.Since != nil:
		return [][]Cell{{Text("No node was unhealthy since " + At(h.Since, h.Time.Time) + ", as far as is recorded.")}}
	default:
		return [][]Cell{{Text("No node was unhealthy, as far as is recorded.")}}
	}
}

// At returns the date and the time of an instant.
func At(t *metav1.Time, now time.Time) string {
	if t == nil {
		return Unknown
	}
	return t.In(now.Location()).Format(time.DateTime)
}

// After returns how long after the detection something was.
func After(episode *Episode, t *metav1.Time) Cell {
	if t == nil {
		return Cell{Text: Unknown, Style: Faint}
	}
	return Text("+" + duration.HumanDuration(max(0, t.Sub(episode.Detected.Time))))
}

// outcomes is how outcomes are shown.
var outcomes = map[v1alpha1.EpisodeOutcome]Cell{
	"":                          {Text: "open", Style: Warning},
	v1alpha1.OutcomeRecovered:   {Text: "recovered", Style: Good},
	v1alpha1.OutcomeReplaced:    {Text: "replaced", Style: Good},
	v1alpha1.OutcomeCancelled:   {Text: "cancelled", Style: Faint},
	v1alpha1.OutcomeDryRun:      {Text: "dry run", Style: Faint},
	v1alpha1.OutcomeNodeDeleted: {Text: "node deleted", Style: Bad},
	EndUnknown:                  {Text: "closed", Style: Bad},
	v1alpha1.OutcomeRecoveredWithoutRemediation: {Text: "by itself", Style: Good},
}

// Outcome says how an episode ended.
func Outcome(outcome v1alpha1.EpisodeOutcome) Cell {
	if cell, known := outcomes[outcome]; known {
		return cell
	}
	return Text(string(outcome)) // Of a newer controller.
}

// tried tells what was tried, with how long each step took.
func tried(episode *Episode, now time.Time) string {
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
