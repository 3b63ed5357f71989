// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"errors"
	"fmt"
	"regexp"
	"time"
	_ "time/tzdata" // The time zones: the image has no files but the binary.

	"github.com/robfig/cron/v3"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// window opens at each moment of the schedule for duration. The cron library finds the moments, also on days on which the
// clocks of the time zone change (spec B2.3).
type window struct {
	schedule *cron.SpecSchedule
	duration time.Duration
}

// fiveFields is the form of cron that admission accepts. The parser alone would also accept a
// time zone in front, and names such as @daily.
var fiveFields = regexp.MustCompile(`^ *[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4} *$`)

// parseWindow reads a schedule. The error says what is wrong with it.
func parseWindow(schedule *nhcv1alpha1.BudgetSchedule) (window, error) {
	if !fiveFields.MatchString(schedule.Cron) {
		return window{}, errors.New("cron must have five fields: minute, hour, day of the month, month and day of the week")
	}
	if schedule.Duration.Duration <= 0 {
		return window{}, errors.New("duration must be positive")
	}
	if schedule.TimeZone == "Local" { // The one of the controller, which no user can know.
		return window{}, errors.New("unknown time zone Local")
	}
	location, err := time.LoadLocation(schedule.TimeZone) // Empty means UTC.
	if err != nil {
		return window{}, fmt.Errorf("unknown time zone %s", schedule.TimeZone)
	}
	parsed, err := cron.ParseStandard(schedule.Cron)
	if err != nil {
		return window{}, fmt.Errorf("cron: %w", err)
	}
	moments := parsed.(*cron.SpecSchedule) // As five fields always are.
	moments.Location = location
	// A field of nothing but commas would have Next look at each minute of five years.
	if moments.Minute == 0 || moments.Hour == 0 || moments.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return window{}, fmt.Errorf("cron %q names no moment", schedule.Cron)
	}
	return window{schedule: moments, duration: schedule.Duration.Duration}, nil
}

// end returns when the window closes that is open at the instant now. It is zero if the window
// is not open.
func (w *window) end(now time.Time) time.Time {
	opened := w.schedule.Next(now.Add(-w.duration))
	if opened.IsZero() || opened.After(now) { // Zero: none in five years.
		return time.Time{}
	}
	return opened.Add(w.duration)
}

// phase is a time in which a budget either applies or does not.
type phase struct {
	applies bool
	// until is when the phase ends. It is zero if it does not, or not within maxChained
	// windows.
	until time.Time
	// from is the instant at which the phase was computed. recheck is when it has to be computed
	// again, zero if never.
	from, recheck time.Time
}

// covers reports whether the phase was computed for the instant now, too.
func (p *phase) covers(now time.Time) bool {
	return !p.from.IsZero() && !now.Before(p.from) && (p.recheck.IsZero() || now.Before(p.recheck))
}

// maxChained is how many overlapping windows are followed to find the end of the last one.
const maxChained = 256

// phaseAt returns the phase of a budget with these windows. Without windows it always applies.
func phaseAt(windows []window, now time.Time) phase {
	if len(windows) == 0 {
		return phase{applies: true, from: now}
	}
	var until time.Time
	end := latestEnd(windows, now)
	if end.IsZero() {
		for i := range windows {
			end = health.Earliest(end, windows[i].schedule.Next(now))
		}
		return phase{until: end, from: now, recheck: end}
	}
	for range maxChained {
		if until, end = end, latestEnd(windows, end); end.IsZero() {
			return phase{applies: true, until: until, from: now, recheck: until}
		}
	}
	return phase{applies: true, from: now, recheck: until}
}

// latestEnd returns when the last one of the windows closes that are open at an instant. It is
// zero if none is open.
func latestEnd(windows []window, now time.Time) (latest time.Time) {
	for i := range windows {
		if end := windows[i].end(now); end.After(latest) {
			latest = end
		}
	}
	return latest
}
