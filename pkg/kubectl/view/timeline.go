// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"maps"
	"slices"
	"time"
)

// Timeline is a history by node: what is drawn as one row per node, with a bar for each episode.
type Timeline struct {
	// Start and End are what the rows show.
	Start, End time.Time
	// Rows are sorted by name.
	Rows []TimelineRow
}

// TimelineRow is what happened to one node or Machine.
type TimelineRow struct {
	Target string
	// Episodes are in order of their detection, the oldest first: a newer one covers it.
	Episodes []*Episode
}

// NewTimeline returns the rows of a history.
func NewTimeline(history *History) *Timeline {
	t := &Timeline{Start: history.Time.Time, End: history.Time.Time}
	rows := map[string][]*Episode{}
	for i := range slices.Backward(history.Episodes) {
		episode := &history.Episodes[i]
		rows[episode.Target()] = append(rows[episode.Target()], episode)
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
	for _, target := range slices.Sorted(maps.Keys(rows)) {
		t.Rows = append(t.Rows, TimelineRow{Target: target, Episodes: rows[target]})
	}
	return t
}

// Fraction returns where between start and end an instant is, from 0 to 1. What is outside is at
// the nearer edge.
func (t *Timeline) Fraction(at time.Time) float64 {
	span := seconds(t.Start, t.End)
	if span <= 0 {
		return 1
	}
	return min(max(0, seconds(t.Start, at)/span), 1)
}

// seconds returns how long it is from a to b, also for what is too long for a [time.Duration].
func seconds(a, b time.Time) float64 {
	return float64(b.Unix()-a.Unix()) + float64(b.Nanosecond()-a.Nanosecond())/float64(time.Second)
}
