// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// window is open for duration from each moment of the schedule.
type window struct {
	schedule cron.Schedule
	duration time.Duration
}

// fiveFields is what cron must look like, as admission has it. It keeps out what the parser
// takes besides: a time zone in front, and names such as @daily.
var fiveFields = regexp.MustCompile(`^ *[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4} *$`)

// parseWindow reads a schedule. The error says what is wrong with it.
func parseWindow(schedule *v1alpha1.BudgetSchedule) (window, error) {
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
	if parsed, ok := parsed.(*cron.SpecSchedule); ok {
		parsed.Location = location
	}
	if parsed.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return window{}, fmt.Errorf("cron %q names no moment", schedule.Cron)
	}
	return window{schedule: parsed, duration: schedule.Duration.Duration}, nil
}

// end returns when the window closes that is open at the instant now, zero if none is open.
func (w window) end(now time.Time) time.Time {
	opened := w.schedule.Next(now.Add(-w.duration))
	if opened.IsZero() || opened.After(now) {
		return time.Time{}
	}
	return opened.Add(w.duration)
}

// maxChained is how many windows that overlap are followed to tell when the last one closes.
// Whoever looks again then finds the rest.
const maxChained = 64

// openAt reports whether one of the windows is open at the instant now, and when that changes,
// zero if it does not.
func openAt(windows []window, now time.Time) (open bool, until time.Time) {
	until = now
	for range maxChained {
		end := latestEnd(windows, until)
		if end.IsZero() {
			break
		}
		open, until = true, end
	}
	if open {
		return true, until
	}
	until = time.Time{}
	for _, w := range windows {
		until = health.Earliest(until, w.schedule.Next(now))
	}
	return false, until
}

// latestEnd returns when the last window closes of those that are open at an instant.
func latestEnd(windows []window, now time.Time) (latest time.Time) {
	for _, w := range windows {
		if end := w.end(now); end.After(latest) {
			latest = end
		}
	}
	return latest
}
