// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
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

// shapes are those of the outcomes, so that they can be told apart without colours.
var shapes = map[v1alpha1.EpisodeOutcome]string{
	"":                          "open",
	v1alpha1.OutcomeRecovered:   "recovered",
	v1alpha1.OutcomeReplaced:    "replaced",
	v1alpha1.OutcomeCancelled:   "cancelled",
	v1alpha1.OutcomeDryRun:      "dry-run",
	v1alpha1.OutcomeNodeDeleted: "deleted",
	view.EndUnknown:             "unknown",
	v1alpha1.OutcomeRecoveredWithoutRemediation: "by-itself",
}

// shapeOf returns the shape of an outcome, also of one that only a newer controller knows.
func shapeOf(outcome v1alpha1.EpisodeOutcome) string {
	if shape, known := shapes[outcome]; known {
		return shape
	}
	return "unknown"
}

func newTimeline(rows *view.Timeline, now time.Time) *timeline {
	t := &timeline{Ticks: ticks(rows, now)}
	for i := range rows.Rows {
		row := &rows.Rows[i]
		name := cell{Text: row.Target, Link: historyLink(row.Target, "")}
		drawn := timelineRow{Name: name, Count: len(row.Episodes)}
		for _, episode := range row.Episodes {
			drawn.Bars = append(drawn.Bars, newBar(rows, episode, now))
		}
		t.Rows = append(t.Rows, drawn)
	}
	return t
}

func newBar(rows *view.Timeline, e *view.Episode, now time.Time) bar {
	end := e.End(now)
	outcome := view.Outcome(e)
	b := bar{
		Link: episodeLink(e), Label: describe(e, now), Shape: shapeOf(e.Outcome), Class: classes[outcome.Style],
		Detected: percent(rows.Fraction(e.Detected.Time)), End: percent(rows.Fraction(end)),
	}
	begin := end
	if e.Started != nil && e.Started.Time.Before(end) {
		begin = e.Started.Time
	}
	b.Wait = newSegment(rows, e.Detected.Time, begin, "wait")
	b.Repair = newSegment(rows, begin, end, "repair")
	for i := range e.Steps {
		step, until := &e.Steps[i], end
		if step.Ended != nil && step.Ended.Time.Before(end) {
			until = step.Ended.Time
		}
		class := "step"
		if i%2 == 1 {
			class = "step other"
		}
		b.Steps = append(b.Steps, newSegment(rows, step.Started.Time, until, class))
	}
	b.Started, b.Fenced = mark(rows, e.Started), mark(rows, e.Fenced)
	return b
}

// mark returns the place of an instant, nothing if there is none.
func mark(rows *view.Timeline, t *metav1.Time) string {
	if t == nil || t.Time.Before(rows.Start) || t.Time.After(rows.End) {
		return ""
	}
	return percent(rows.Fraction(t.Time))
}

func newSegment(rows *view.Timeline, begin, end time.Time, class string) segment {
	from, to := rows.Fraction(begin), rows.Fraction(end)
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
	parts = append(parts, "outcome "+view.Outcome(e).Text)
	return strings.Join(parts, ", ")
}

// maxTicks is how many labels fit.
const maxTicks = 8

const day = 24 * time.Hour

// longest is how many days a [time.Duration] can have.
const longest = int64(1<<63-1) / int64(day)

// distances are how far apart the labels of an axis may be.
var distances = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute,
	30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day,
}

// ticks are the labels of the axis: at round times of the day, and at midnight with the date.
func ticks(rows *view.Timeline, now time.Time) (labels []tick) {
	start, end := rows.Start.In(now.Location()), rows.End.In(now.Location())
	days := (end.Unix() - start.Unix()) / int64(day/time.Second) / maxTicks
	distance := max(distances[len(distances)-1], time.Duration(min(days, longest))*day)
	for _, d := range distances {
		if end.Sub(start) <= maxTicks*d {
			distance = d
			break
		}
	}
	year, month, date := start.Date()
	midnight := time.Date(year, month, date, 0, 0, 0, 0, now.Location())
	for n := 0; ; n++ {
		at := midnight.Add(time.Duration(n) * distance)
		if distance >= day { // Days are not always of the same length.
			at = midnight.AddDate(0, 0, n*int(distance/day))
		}
		if at.After(end) {
			return labels
		}
		if !at.Before(start) {
			labels = append(labels, tick{X: percent(rows.Fraction(at)), Label: label(at, distance)})
		}
	}
}

func label(at time.Time, distance time.Duration) string {
	switch {
	case distance >= 91*day:
		return at.Format("Jan 2006")
	case distance >= day, at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0:
		return at.Format("Jan 2")
	case distance < time.Minute:
		return at.Format(time.TimeOnly)
	default:
		return at.Format("15:04")
	}
}
