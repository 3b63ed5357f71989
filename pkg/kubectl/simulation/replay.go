// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Replay is the result of a configuration for a recording, with the differences from another
// configuration.
type Replay struct {
	Recorded Recorded `json:"recorded"`
	// Configuration is where the configuration comes from.
	Configuration string `json:"configuration"`
	*Result
	// Comparison is absent if there was nothing to compare with.
	Comparison *Comparison `json:"comparison,omitempty"`
}

// Recorded says what a recording has.
type Recorded struct {
	File string `json:"file"`
	// Nodes is the number of nodes that existed at any time, Changes that of their changes after the
	// start, and Gaps that of the times that were not recorded.
	Nodes   int `json:"nodes"`
	Changes int `json:"changes"`
	Gaps    int `json:"gaps"`
}

// NewReplay returns the input that plays a recording. Nodes change as recorded: simulated remediations
// do not change them.
func NewReplay(from *Recording) *Input {
	return &Input{Recorded: from.Entries, Start: from.Start, Duration: from.End.Sub(from.Start)}
}

// NewRecorded returns what a recording has.
func NewRecorded(file string, from *Recording) Recorded {
	recorded := Recorded{File: file}
	names := map[string]bool{}
	for i := range from.Entries {
		switch entry := &from.Entries[i]; {
		case !entry.Gap.IsZero():
			recorded.Gaps++
		case entry.Node != "":
			names[entry.Node] = true
			if entry.At.After(from.Start) {
				recorded.Changes++
			}
		}
	}
	recorded.Nodes = len(names)
	return recorded
}

// reaction is the time between a change of a Node and the decision. The controller sees all changes
// within it together. So it does not begin to remediate the second of two nodes that recover together
// because of the first one.
const reaction = 200 * time.Millisecond

// play changes the Nodes as they were recorded until now.
func (w *world) play(now time.Time) {
	for len(w.recorded) > 0 && !w.recorded[0].At.After(now) {
		entry := &w.recorded[0]
		w.recorded = w.recorded[1:]
		switch {
		case !entry.Gap.IsZero():
			w.journal.add(Line{What: NotRecorded, Why: fmt.Sprintf("for %s until now: changes may be missing, or late", lasted(entry.At.Sub(entry.Gap)))}, entry.At)
		case entry.Node != "":
			w.playNode(entry)
		}
	}
}

// playNode changes a Node, and writes down the effect.
func (w *world) playNode(entry *Entry) {
	before := w.nodes[entry.Node]
	after := Apply(before, entry)
	w.set(entry.Node, after)
	if entry.At.Equal(w.journal.start) {
		return // It is as it was before the recording.
	}
	line := func(what What, why string) {
		w.journal.add(Line{Nodes: []string{entry.Node}, What: what, Why: why}, entry.At)
	}
	switch {
	case after == nil && before != nil:
		line(Deleted, "")
	case after != nil && (before == nil || before.UID != after.UID):
		line(Created, "")
	}
	was, is := w.harm(before), w.harm(after)
	switch {
	case is != "" && is != was:
		line(Fails, is)
	case after != nil && was != "" && is == "":
		line(Recovers, "as recorded")
	}
}

// harm names the conditions by which a node is not healthy. It is empty for a healthy one, and for one
// that does not exist.
func (w *world) harm(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	var harmful []string
	for _, condition := range node.Status.Conditions {
		if w.matches(condition) || condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			harmful = append(harmful, fmt.Sprintf("%s=%s", condition.Type, condition.Status))
		}
	}
	slices.Sort(harmful)
	return strings.Join(harmful, ", ")
}
