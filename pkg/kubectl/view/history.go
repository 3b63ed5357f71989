// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// History is what happened before.
type History struct {
	// Time is the instant at which it holds, and Since its beginning, absent if it is all that
	// is known.
	Time  metav1.Time  `json:"time"`
	Since *metav1.Time `json:"since,omitempty"`
	// Until is when the last episode may have been detected, absent if it is now.
	Until *metav1.Time `json:"until,omitempty"`
	// Episodes are in order of their detection, the newest first.
	Episodes []Episode `json:"episodes"`
	// Full are the NodeHealthChecks whose status has no room for older episodes.
	Full []FullHistory `json:"full,omitempty"`
	// Missing is not empty if the history is partial.
	Missing []Missing `json:"missing,omitempty"`
}

// FullHistory tells how much of what happened status has kept.
type FullHistory struct {
	Check string `json:"check"`
	Kept  int    `json:"kept"`
	// Running is how many nodes are under remediation. Those that are not kept are left out.
	Running int `json:"running"`
}

// Episode is one episode of a node, or one remediation of a Machine.
type Episode struct {
	// Check is the name of the health check, namespace/name for a MachineHealthCheck.
	Check string `json:"check"`
	// Node is the name of the node. A Machine without one has none.
	Node    string `json:"node,omitempty"`
	Machine string `json:"machine,omitempty"`
	Trigger string `json:"trigger,omitempty"`

	Detected metav1.Time  `json:"detected"`
	Started  *metav1.Time `json:"started,omitempty"`
	Fenced   *metav1.Time `json:"fenced,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	Released *metav1.Time `json:"released,omitempty"`

	// Outcome is how it ended, empty while it is open.
	Outcome v1alpha1.EpisodeOutcome `json:"outcome,omitempty"`
	Steps   []v1alpha1.EpisodeStep  `json:"steps,omitempty"`
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

// EndUnknown is that of a remediation of a Machine of which the end was never seen.
const EndUnknown v1alpha1.EpisodeOutcome = "Closed"

// Filter says which episodes to show. What is empty selects all.
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
			add(newEpisode(nhc.Name, &nhc.Status.RemediationHistory[i]))
		}
		if kept := len(nhc.Status.RemediationHistory); kept > 0 && kept >= historyLimit(nhc) && (filter.Check == "" || filter.Check == nhc.Name) {
			history.Full = append(history.Full, FullHistory{Check: nhc.Name, Kept: kept, Running: value(nhc.Status.RemediatingNodes)})
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

func newEpisode(check string, episode *v1alpha1.Episode) Episode {
	shown := Episode{
		Check: check, Node: episode.Node, Detected: episode.Detected, Started: episode.Started, Fenced: episode.Fenced, Finished: episode.Finished,
		Released: episode.Released, Outcome: episode.Outcome, Steps: episode.Steps,
	}
	if trigger := episode.Trigger; trigger != nil {
		shown.Trigger = string(trigger.Type) + "=" + string(trigger.Status)
	}
	return shown
}

func newMachineEpisode(check string, remediation *machinev1beta1.Remediation) Episode {
	shown := Episode{
		Check: check, Machine: remediation.Machine, Trigger: remediation.Reason, Detected: remediation.Detected, Started: remediation.Started,
		Fenced: remediation.Fenced, Finished: remediation.Finished, Released: remediation.Closed, Replacement: remediation.Replacement,
	}
	switch remediation.TargetKind {
	case "Node":
		shown.Node = remediation.TargetName
	default:
		shown.Machine = cmp.Or(shown.Machine, remediation.TargetName)
	}
	if remediation.ConditionType != "" {
		shown.Trigger = string(remediation.ConditionType) + "=" + string(remediation.ConditionStatus)
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

// Targets returns the names of all Nodes, and of all Nodes and Machines that history knows. It reports
// whether the Nodes could be read.
func Targets(snapshot *Snapshot) (names []string, all bool) {
	names = NodeNames(snapshot)
	history := NewHistory(snapshot, Filter{}, time.Time{})
	for i := range history.Episodes {
		for _, name := range []string{history.Episodes[i].Node, history.Episodes[i].Machine} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, !snapshot.misses("nodes")
}

// historyLimit is how many episodes that have ended the status of a NodeHealthCheck keeps.
func historyLimit(nhc *v1alpha1.NodeHealthCheck) int {
	if limit := nhc.Spec.RemediationHistoryLimit; limit != nil {
		return int(*limit)
	}
	return v1alpha1.DefaultRemediationHistoryLimit
}
