// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

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
