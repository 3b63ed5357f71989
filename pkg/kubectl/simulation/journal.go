// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
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
	// began and timedOut are the numbers of remediations and of steps.
	began, timedOut int
	longest         *Wait
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
	waiting, remediated, exhausted := sets.New[string](), sets.KeySet(w.crs), sets.New[string]()
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
		Unhealthy: j.unhealthy.Len(), Remediated: j.remediated.Len(), Remediations: j.began, MostAtATime: j.mostAtATime, TimedOut: j.timedOut, LongestWait: j.longest,
		StillRemediated: sets.List(remediated.Difference(exhausted)), StillWaiting: sets.List(waiting.Difference(remediated)), StillExhausted: sets.List(exhausted),
	}
}
