// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/recording"
)

// Recorded is what was played of a recording.
type Recorded struct {
	File string `json:"file"`
	// Nodes is the number of nodes that there were at any time, Changes that of their changes after
	// the start, and Gaps that of the times in which nothing was recorded.
	Nodes   int `json:"nodes"`
	Changes int `json:"changes"`
	Gaps    int `json:"gaps"`
}

// NewReplay returns the input that plays a recording. Nodes become healthy as they did then, and not
// because something was done about them here.
func NewReplay(from *recording.Recording) *Input {
	return &Input{Recorded: from.Entries, Start: from.Start, Duration: from.End.Sub(from.Start)}
}

// NewRecorded returns what a recording has.
func NewRecorded(file string, from *recording.Recording) *Recorded {
	recorded := &Recorded{File: file}
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

// play has the Nodes become what they were recorded to be until now.
func (w *world) play(now time.Time) {
	for len(w.recorded) > 0 && !w.recorded[0].At.After(now) {
		entry := &w.recorded[0]
		w.recorded = w.recorded[1:]
		switch {
		case !entry.Gap.IsZero():
			w.journal.add(Line{What: NotRecorded, Why: fmt.Sprintf("for %s until then: times may be too late, and changes missing", entry.At.Sub(entry.Gap).Truncate(time.Second))}, now)
		case entry.Node != "":
			w.playNode(entry, now)
		}
	}
}

// playNode changes a Node, and writes down what that means.
func (w *world) playNode(entry *recording.Entry, now time.Time) {
	before := w.nodes[entry.Node]
	after := recording.Apply(before, entry)
	w.set(entry.Node, after)
	line := func(what What, why string) {
		w.journal.add(Line{Nodes: []string{entry.Node}, What: what, Why: why}, now)
	}
	atStart := now.Equal(w.journal.start)
	switch {
	case after == nil:
		if before != nil {
			line(Deleted, "")
		}
		return
	case (before == nil || before.UID != after.UID) && !atStart:
		line(Created, "")
	}
	was, is := before != nil && w.unhealthy(before), w.unhealthy(after)
	switch why := w.harm(after); {
	case is && (!was || why != w.harm(before)):
		line(Fails, why)
	case was && !is:
		line(Recovers, "as recorded")
	}
}

// harm names the conditions by which a node is not healthy.
func (w *world) harm(node *corev1.Node) string {
	var harmful []string
	for _, condition := range node.Status.Conditions {
		if w.matches(condition) || condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			harmful = append(harmful, fmt.Sprintf("%s=%s", condition.Type, condition.Status))
		}
	}
	slices.Sort(harmful)
	return strings.Join(harmful, ", ")
}
