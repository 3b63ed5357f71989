// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// journal has the events so far.
type journal struct {
	start time.Time
	lines []Line
	// flushed is the number of lines of earlier instants.
	flushed     int
	unhealthy   sets.Set[string]
	remediated  sets.Set[string]
	mostAtATime int
	timedOut    int
	longest     *Wait
	episodes    []*Episode
}

func newJournal(start time.Time) journal {
	return journal{start: start, lines: []Line{}, unhealthy: sets.New[string](), remediated: sets.New[string]()}
}

// add adds a line, or adds its nodes to an equal line of this instant.
func (j *journal) add(line Line, now time.Time) {
	line.After = metav1.Duration{Duration: now.Sub(j.start)}
	for i := j.flushed; i < len(j.lines); i++ {
		if j.lines[i].same(&line) && len(line.Nodes) > 0 {
			j.lines[i].Nodes = append(j.lines[i].Nodes, line.Nodes...)
			return
		}
	}
	j.lines = append(j.lines, line)
}

// flush ends an instant.
func (j *journal) flush() {
	for i := j.flushed; i < len(j.lines); i++ {
		slices.Sort(j.lines[i].Nodes)
	}
	j.flushed = len(j.lines)
}

// waited records for how long a node was unhealthy without a remediation.
func (j *journal) waited(node string, wait time.Duration) {
	if wait <= 0 {
		return
	}
	if longest := j.longest; longest == nil || wait > longest.For.Duration || wait == longest.For.Duration && node < longest.Node {
		j.longest = &Wait{Node: node, For: metav1.Duration{Duration: wait}}
	}
}

// summary returns the numbers at the end.
func (w *world) summary(now time.Time) Summary {
	j := &w.journal
	waiting, remediated, exhausted := sets.New[string](), sets.New[string](), sets.New[string]()
	for name := range w.crs {
		remediated.Insert(name)
	}
	for _, c := range w.checks {
		for node, known := range c.seen {
			if !known.waits.IsZero() {
				j.waited(node, now.Sub(known.waits))
				waiting.Insert(node)
			}
			if known.reason.Type() == v1alpha1.DecisionExhausted {
				exhausted.Insert(node)
			}
		}
	}
	return Summary{
		Unhealthy: j.unhealthy.Len(), Remediated: j.remediated.Len(), Remediations: remediations(j.episodes), MostAtATime: j.mostAtATime, TimedOut: j.timedOut, LongestWait: j.longest,
		StillRemediated: sets.List(remediated.Difference(exhausted)), StillWaiting: sets.List(waiting.Difference(remediated)), StillExhausted: sets.List(exhausted),
	}
}

// Episode is a time in which a node was unhealthy or under remediation for a NodeHealthCheck. Its
// times are those after the start.
type Episode struct {
	Node  string `json:"node"`
	Check string `json:"check"`
	// Detected is when the node became unhealthy.
	Detected metav1.Duration `json:"detected"`
	// Began is when its remediation began, absent if none has.
	Began *metav1.Duration `json:"began,omitempty"`
	// Ended is when the node was healthy again, or gone, and no remediation was left. It is absent for
	// an episode that has not ended.
	Ended *metav1.Duration `json:"ended,omitempty"`
	// Steps is the number of remediation objects that were created.
	Steps int `json:"steps"`
	// Waits is why the remediation has not begun, or did not begin at once: what was said last.
	Waits string `json:"waits,omitempty"`
}

// remediations returns how many episodes have a remediation.
func remediations(episodes []*Episode) (n int) {
	for _, episode := range episodes {
		if episode.Began != nil {
			n++
		}
	}
	return n
}

// after returns an instant as a time after the start.
func (w *world) after(now time.Time) metav1.Duration {
	return metav1.Duration{Duration: now.Sub(w.journal.start)}
}

// episode returns the episode of a node that has not ended. It begins one if there is none.
func (c *check) episode(node *remediation.Node, now time.Time) *Episode {
	open := c.open[node.Name]
	if open == nil {
		open = &Episode{Node: node.Name, Check: c.nhc.Name, Detected: c.after(now)}
		c.open[node.Name] = open
		c.journal.episodes = append(c.journal.episodes, open)
	}
	return open
}

// beginStep records that a remediation object was created.
func (c *check) beginStep(node *remediation.Node, now time.Time) {
	open := c.episode(node, now)
	open.Steps++
	if open.Began == nil {
		open.Began = new(c.after(now))
	}
}

// endEpisode ends the episode of a node, if it has one.
func (c *check) endEpisode(node string, now time.Time) {
	if open := c.open[node]; open != nil {
		open.Ended = new(c.after(now))
		delete(c.open, node)
	}
}
