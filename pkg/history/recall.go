// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Recall returns the ledger that a process begins with. The status may be of an earlier process, of the
// upstream operator, or nil. An episode without an outcome in the history goes on. For other listed nodes,
// Recall makes the episode from their entries, because the history may be too short or turned off. It ignores
// values that the API server would refuse, so that they cannot block a write. The ledger is complete, and can
// be listed, after the first [Ledger.Update].
func Recall(status *v1alpha1.NodeHealthCheckStatus) *Ledger {
	ledger := &Ledger{open: map[string]*v1alpha1.Episode{}}
	if status == nil {
		return ledger
	}
	var closed []v1alpha1.Episode
	for i := range status.RemediationHistory {
		episode := status.RemediationHistory[i].DeepCopy()
		switch {
		case !sound(episode):
		case hasEnded(episode):
			closed = append(closed, *episode)
		default:
			ledger.reopen(episode)
		}
	}
	listed := map[string]bool{}
	for i := range status.UnhealthyNodes {
		entry := &status.UnhealthyNodes[i]
		if entry.Name == "" || listed[entry.Name] {
			continue
		}
		listed[entry.Name] = true
		if ledger.open[entry.Name] != nil {
			continue
		}
		if made := fromEntry(entry); !made.Detected.IsZero() || (len(made.Steps) > 0 && entry.Decision == nil) { // Upstream detects and decides nothing.
			ledger.open[entry.Name] = &made
		}
	}
	ledger.closed = latest(nil, closed)
	return ledger
}

// reopen continues an open episode, the later one if a node has two.
func (l *Ledger) reopen(episode *v1alpha1.Episode) {
	if other, open := l.open[episode.Node]; open && !episode.Detected.After(other.Detected.Time) {
		return
	}
	if episode.Finished.IsZero() {
		episode.Finished = nil
	}
	episode.Released, episode.Outcome = nil, ""
	l.open[episode.Node] = episode
}

// fromEntry returns the episode of a listed node. If the entry does not tell when it was
// detected, the first sync dates it.
func fromEntry(entry *v1alpha1.UnhealthyNode) v1alpha1.Episode {
	episode := v1alpha1.Episode{Node: entry.Name, Trigger: triggerOf(entry.Trigger)}
	if entry.Detected != nil {
		episode.Detected = *entry.Detected
	}
	for i := range entry.Remediations {
		cr := &entry.Remediations[i]
		if cr.Started.IsZero() {
			continue
		}
		step := stepOf(cr)
		if cr.TimedOut != nil {
			end(&step, v1alpha1.StepTimedOut, cr.TimedOut.Time)
		}
		episode.Steps = append(episode.Steps, step)
	}
	episode.Steps = arrange(episode.Steps)
	return episode
}

// sound reports whether an episode has what the API requires.
func sound(episode *v1alpha1.Episode) bool {
	return episode.Node != "" && !episode.Detected.IsZero() && len(episode.Steps) <= maxSteps &&
		!slices.ContainsFunc(episode.Steps, func(step v1alpha1.EpisodeStep) bool { return step.Started.IsZero() })
}
