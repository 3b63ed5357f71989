// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// timeline is drawn as one row per node, with a bar for each episode. All places are in percent of the
// width, so that it fits any window.
type timeline struct {
	Ticks []tick
	Rows  []timelineRow
}

// tick is a label of the axis.
type tick struct{ X, Label string }

type timelineRow struct {
	Name  cell
	Count int
	Bars  []bar
}

// bar is one episode.
type bar struct {
	Link string
	// Label is all that the bar shows, in words.
	Label string
	// Wait is when the node was unhealthy and nothing had begun, Repair is from the beginning of the
	// remediation to its end, and Steps are its parts.
	Wait, Repair segment
	Steps        []segment
	// Started and Fenced are empty if that has not happened.
	Detected, Started, Fenced, End string
	Shape, Class                   string
}

// segment is a part of a bar.
type segment struct{ X, Width, Class string }

// shapeOf returns the shape of an outcome, so that it can be told apart without colours. One that only a newer controller
// knows has that of an unknown end.
func shapeOf(outcome v1alpha1.EpisodeOutcome) string {
	if outcome != "" && !slices.Contains(outcomes, outcome) {
		outcome = view.EndUnknown
	}
	return strings.ReplaceAll(view.Outcome(outcome).Text, " ", "-")
}

// rows are a history by node: what is drawn as one row per node, with a bar for each episode.
type rows struct {
	// Start and End are what the rows show.
	Start, End time.Time
	// Rows are sorted by name.
	Rows []nodeRow
}

// nodeRow is what happened to one node or Machine.
type nodeRow struct {
	Target string
	// Episodes are in order of their detection, the oldest first: a newer one covers it.
	Episodes []*view.Episode
}

// newRows returns the rows of a history.
func newRows(history *view.History) *rows {
	t := &rows{Start: history.Time.Time, End: history.Time.Time}
	byTarget := map[string][]*view.Episode{}
	for i := range slices.Backward(history.Episodes) {
		episode := &history.Episodes[i]
		byTarget[episode.Target()] = append(byTarget[episode.Target()], episode)
		if episode.Detected.Time.Before(t.Start) {
			t.Start = episode.Detected.Time
		}
	}
	if history.Since != nil {
		t.Start = history.Since.Time
	}
	if history.Until != nil && history.Until.Before(&history.Time) {
		t.End = history.Until.Time
	}
	for _, target := range slices.Sorted(maps.Keys(byTarget)) {
		t.Rows = append(t.Rows, nodeRow{Target: target, Episodes: byTarget[target]})
	}
	return t
}

// fraction returns where between start and end an instant is, from 0 to 1. What is outside is at
// the nearer edge.
func (t *rows) fraction(at time.Time) float64 {
	span := t.End.Sub(t.Start)
	if span <= 0 {
		return 1
	}
	return min(max(0, at.Sub(t.Start).Seconds()/span.Seconds()), 1)
}

func newTimeline(shown *rows, now time.Time) *timeline {
	t := &timeline{Ticks: ticks(shown, now)}
	for i := range shown.Rows {
		row := &shown.Rows[i]
		name := cell{Text: row.Target, Link: historyLink(row.Target, "")}
		drawn := timelineRow{Name: name, Count: len(row.Episodes)}
		for _, episode := range row.Episodes {
			drawn.Bars = append(drawn.Bars, newBar(shown, episode, now))
		}
		t.Rows = append(t.Rows, drawn)
	}
	return t
}

func newBar(shown *rows, e *view.Episode, now time.Time) bar {
	end := e.End(now)
	b := bar{
		Link: historyLink(e.Target(), e.Check), Label: describe(e, now), Shape: shapeOf(e.Outcome), Class: classes[view.Outcome(e.Outcome).Style],
		Detected: percent(shown.fraction(e.Detected.Time)), End: percent(shown.fraction(end)),
	}
	begin := end
	if e.Started != nil && e.Started.Time.Before(end) {
		begin = e.Started.Time
	}
	b.Wait = newSegment(shown, e.Detected.Time, begin, "wait")
	b.Repair = newSegment(shown, begin, end, "repair")
	for i := range e.Steps {
		step, until := &e.Steps[i], end
		if step.Ended != nil && step.Ended.Time.Before(end) {
			until = step.Ended.Time
		}
		class := "step"
		if i%2 == 1 {
			class = "step other"
		}
		b.Steps = append(b.Steps, newSegment(shown, step.Started.Time, until, class))
	}
	b.Started, b.Fenced = mark(shown, e.Started), mark(shown, e.Fenced)
	return b
}

// mark returns the place of an instant, nothing if there is none.
func mark(shown *rows, t *metav1.Time) string {
	if t == nil || t.Time.Before(shown.Start) || t.Time.After(shown.End) {
		return ""
	}
	return percent(shown.fraction(t.Time))
}

func newSegment(shown *rows, begin, end time.Time, class string) segment {
	from, to := shown.fraction(begin), shown.fraction(end)
	return segment{X: percent(from), Width: percent(max(0, to-from)), Class: class}
}

// describe says in words what a bar shows.
func describe(e *view.Episode, now time.Time) string {
	parts := []string{e.Target() + ", " + e.Check + ": detected " + view.At(&e.Detected, now)}
	for _, phase := range []struct {
		name string
		at   *metav1.Time
	}{{"started", e.Started}, {"fenced", e.Fenced}, {"finished", e.Finished}} {
		if phase.at != nil {
			parts = append(parts, phase.name+" after "+strings.TrimPrefix(view.After(e, phase.at).Text, "+"))
		}
	}
	parts = append(parts, "outcome "+view.Outcome(e.Outcome).Text)
	return strings.Join(parts, ", ")
}

// parts is into how many equal parts the labels of an axis divide it.
const parts = 5

// ticks are the labels of the axis, at equal distances.
func ticks(shown *rows, now time.Time) (labels []tick) {
	span := shown.End.Sub(shown.Start)
	layout := time.TimeOnly
	switch {
	case span > 300*24*time.Hour:
		layout = "Jan 2006"
	case span > 4*24*time.Hour:
		layout = "Jan 2"
	case span > 20*time.Minute:
		layout = "Jan 2 15:04"
	}
	for n := range parts {
		at := shown.Start.Add(span / (2 * parts) * time.Duration(2*n+1)).In(now.Location())
		labels = append(labels, tick{X: percent(shown.fraction(at)), Label: at.Format(layout)})
	}
	return labels
}
