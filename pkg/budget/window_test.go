// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPhases: when a budget applies, and until when that is so (spec B2.3).
func TestPhases(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin"
	nights := []option{schedule("0 22 * * *", "", 8*time.Hour)}
	businessHours := []option{schedule("0 8 * * MON-FRI", berlin, 10*time.Hour)}
	for name, tc := range map[string]struct {
		schedules []option
		now       string
		applies   bool
		until     string
		unending  bool
	}{
		"no schedule: always": {now: "2026-01-07T12:00:00Z", applies: true},

		"just before it opens":             {schedules: nights, now: "2026-01-07T21:59:59Z", until: "2026-01-07T22:00:00Z"},
		"as it opens":                      {schedules: nights, now: "2026-01-07T22:00:00Z", applies: true, until: "2026-01-08T06:00:00Z"},
		"it began before midnight":         {schedules: nights, now: "2026-01-08T03:00:00Z", applies: true, until: "2026-01-08T06:00:00Z"},
		"just before it closes":            {schedules: nights, now: "2026-01-08T05:59:59.999999999Z", applies: true, until: "2026-01-08T06:00:00Z"},
		"as it closes":                     {schedules: nights, now: "2026-01-08T06:00:00Z", until: "2026-01-08T22:00:00Z"},
		"now in another time zone":         {schedules: nights, now: "2026-01-08T07:30:00+02:00", applies: true, until: "2026-01-08T06:00:00Z"},
		"less than a second":               {schedules: []option{schedule("0 22 * * *", "", time.Millisecond)}, now: "2026-01-07T22:00:00.000999Z", applies: true, until: "2026-01-07T22:00:00.001Z"},
		"business hours in winter":         {schedules: businessHours, now: "2026-01-07T07:00:00Z", applies: true, until: "2026-01-07T17:00:00Z"},
		"business hours in summer":         {schedules: businessHours, now: "2026-07-07T06:00:00Z", applies: true, until: "2026-07-07T16:00:00Z"},
		"Friday evening":                   {schedules: businessHours, now: "2026-01-09T17:00:00Z", until: "2026-01-12T07:00:00Z"},
		"Friday evening before the change": {schedules: businessHours, now: "2026-03-27T17:00:00Z", until: "2026-03-30T06:00:00Z"},
		"the weekday is that of the zone":  {schedules: []option{schedule("30 0 * * MON", "Asia/Tokyo", time.Hour)}, now: "2026-01-11T15:30:00Z", applies: true, until: "2026-01-11T16:30:00Z"},
		"a zone with half an hour":         {schedules: []option{schedule("0 9 * * *", "Asia/Kolkata", time.Hour)}, now: "2026-01-07T03:30:00Z", applies: true, until: "2026-01-07T04:30:00Z"},
		"the last second of the year":      {schedules: []option{schedule("59 23 31 12 *", "", time.Minute)}, now: "2026-12-31T23:59:59Z", applies: true, until: "2027-01-01T00:00:00Z"},
		"longer than months are":           {schedules: []option{schedule("0 0 1 * *", "", 15*24*time.Hour)}, now: "2026-02-16T00:00:00Z", until: "2026-03-01T00:00:00Z"},
		"open for weeks":                   {schedules: []option{schedule("0 0 1 1 *", "", 1000*time.Hour)}, now: "2026-02-11T15:59:59Z", applies: true, until: "2026-02-11T16:00:00Z"},
		"a leap day, in the year before":   {schedules: []option{schedule("0 12 29 2 *", berlin, time.Hour)}, now: "2027-03-01T00:00:00Z", until: "2028-02-29T11:00:00Z"},
		"a leap day, on it":                {schedules: []option{schedule("0 12 29 2 *", berlin, time.Hour)}, now: "2028-02-29T11:00:00Z", applies: true, until: "2028-02-29T12:00:00Z"},
		"a leap day, four years away":      {schedules: []option{schedule("0 12 29 2 *", berlin, time.Hour)}, now: "2028-02-29T12:00:00Z", until: "2032-02-29T11:00:00Z"},

		// On 29 March at 01:00 UTC the clocks of Berlin go from 02:00 to 03:00.
		"spring: it spans the change":                 {schedules: []option{schedule("0 22 * * *", berlin, 8*time.Hour)}, now: "2026-03-29T04:59:59Z", applies: true, until: "2026-03-29T05:00:00Z"},
		"B2.3 spring: a skipped moment does not come": {schedules: []option{schedule("30 2 * * *", berlin, 4*time.Hour)}, now: "2026-03-29T01:00:00Z", until: "2026-03-30T00:30:00Z"},
		"spring: the next one is as always":           {schedules: []option{schedule("30 2 * * *", berlin, time.Hour)}, now: "2026-03-29T02:00:00Z", until: "2026-03-30T00:30:00Z"},
		"every hour, for an hour: not possible":       {schedules: []option{schedule("0 * * * *", berlin, time.Hour)}, now: "2026-03-29T00:30:00Z", applies: true, unending: true},

		// On 25 October at 01:00 UTC they go from 03:00 to 02:00.
		"autumn: it spans the change": {schedules: []option{schedule("0 22 * * *", berlin, 8*time.Hour)}, now: "2026-10-25T03:59:59Z", applies: true, until: "2026-10-25T04:00:00Z"},
		"autumn: shown for the first time": {
			schedules: []option{schedule("30 2 * * *", berlin, time.Minute)}, now: "2026-10-25T00:30:00Z", applies: true, until: "2026-10-25T00:31:00Z",
		},
		"autumn: before the second time": {
			schedules: []option{schedule("30 2 * * *", berlin, time.Minute)}, now: "2026-10-25T00:31:00Z", until: "2026-10-25T01:30:00Z",
		},
		"B2.3 autumn: shown again, it comes again": {
			schedules: []option{schedule("30 2 * * *", berlin, time.Minute)}, now: "2026-10-25T01:30:00Z", applies: true, until: "2026-10-25T01:31:00Z",
		},
		"autumn: from 02:30 to 03:30, as clocks show it": {
			schedules: []option{schedule("30 2 * * *", berlin, time.Hour)}, now: "2026-10-25T00:30:00Z", applies: true, until: "2026-10-25T02:30:00Z",
		},
		"autumn: the next one is as always": {
			schedules: []option{schedule("30 2 * * *", berlin, time.Minute)}, now: "2026-10-25T01:31:00Z", until: "2026-10-26T01:30:00Z",
		},

		"two that overlap": {
			schedules: []option{schedule("0 8 * * *", "", 4*time.Hour), schedule("0 11 * * *", "", 4*time.Hour)}, now: "2026-01-07T09:00:00Z", applies: true, until: "2026-01-07T15:00:00Z",
		},
		"two that follow one another": {
			schedules: []option{schedule("0 8 * * *", "", 4*time.Hour), schedule("0 12 * * *", "", 4*time.Hour)}, now: "2026-01-07T09:00:00Z", applies: true, until: "2026-01-07T16:00:00Z",
		},
		"one within the other": {
			schedules: []option{schedule("0 9 * * *", "", time.Hour), schedule("0 8 * * *", "", 4*time.Hour)}, now: "2026-01-07T09:30:00Z", applies: true, until: "2026-01-07T12:00:00Z",
		},
		"neither is open: the first counts": {
			schedules: []option{schedule("0 18 * * *", "", time.Hour), schedule("0 15 * * *", "", time.Hour)}, now: "2026-01-07T13:00:00Z", until: "2026-01-07T15:00:00Z",
		},
		"one that overlaps with itself": {
			schedules: []option{schedule("*/5 8-17 * * *", "", 15*time.Minute)}, now: "2026-01-07T08:00:00Z", applies: true, until: "2026-01-07T18:10:00Z",
		},
		"whole days, from Monday to Friday": {
			schedules: []option{schedule("0 0 * * MON-FRI", "", 24*time.Hour)}, now: "2026-01-07T08:00:00Z", applies: true, until: "2026-01-10T00:00:00Z",
		},
		"day and night: no end": {
			schedules: []option{schedule("0 8 * * *", "", 12*time.Hour), schedule("0 20 * * *", "", 12*time.Hour)}, now: "2026-01-07T09:00:00Z", applies: true, unending: true,
		},
		"more of them than are followed": {
			schedules: []option{schedule("*/5 * 1 * *", "", 5*time.Minute)}, now: "2026-02-01T00:00:00Z", applies: true, unending: true,
		},
		"fewer": {
			schedules: []option{schedule("*/5 * 1 * *", "", 5*time.Minute)}, now: "2026-02-01T04:00:00Z", applies: true, until: "2026-02-02T00:00:00Z",
		},
		"every minute: no end": {schedules: []option{schedule("* * * * *", "", time.Minute)}, now: "2026-01-07T09:00:30Z", applies: true, unending: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed := Parse(budget("b", append(tc.schedules, maxConcurrent("0"))...))
			require.Empty(t, parsed.Problem)
			now := instant(t, tc.now)
			phase := parsed.phaseAt(now)
			require.Equal(t, tc.applies, phase.applies)
			if tc.until == "" {
				require.Zero(t, phase.until)
			} else {
				require.Equal(t, instant(t, tc.until), phase.until.UTC())
			}
			require.Equal(t, tc.unending, !phase.recheck.Equal(phase.until))
			require.True(t, phase.covers(now))
			require.False(t, phase.covers(now.Add(-1)))
			if phase.recheck.IsZero() {
				require.True(t, phase.covers(now.AddDate(100, 0, 0)))
				return
			}
			require.True(t, phase.covers(phase.recheck.Add(-1)))
			require.False(t, phase.covers(phase.recheck))
			require.Equal(t, tc.applies, parsed.phaseAt(phase.recheck.Add(-1)).applies)
			require.Equal(t, tc.applies == tc.unending, parsed.phaseAt(phase.recheck).applies)
		})
	}
}

// TestSixteenSchedules: as many as there may be, one for each hour of the afternoon and night.
func TestSixteenSchedules(t *testing.T) {
	t.Parallel()
	options := []option{maxConcurrent("0")}
	for hour := 8; hour < 24; hour++ {
		options = append(options, schedule(fmt.Sprintf("0 %d * * *", hour), "America/New_York", 61*time.Minute))
	}
	parsed := Parse(budget("b", options...))
	require.Empty(t, parsed.Problem)
	require.Len(t, parsed.windows, 16)
	require.Equal(t, instant(t, "2026-01-08T05:01:00Z"), parsed.phaseAt(instant(t, "2026-01-07T13:00:00Z")).until.UTC())
	require.Equal(t, instant(t, "2026-01-08T13:00:00Z"), parsed.phaseAt(instant(t, "2026-01-08T05:01:00Z")).until.UTC())
}
