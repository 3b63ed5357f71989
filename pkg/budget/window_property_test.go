// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// TestMoments compares next with looking at every minute, around the days on which clocks change.
func TestMoments(t *testing.T) {
	t.Parallel()
	days := []time.Time{
		time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, time.February, 28, 0, 0, 0, 0, time.UTC),
		time.Date(2026, time.March, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, time.October, 24, 0, 0, 0, 0, time.UTC),
		time.Date(2026, time.April, 4, 0, 0, 0, 0, time.UTC), time.Date(2026, time.October, 3, 0, 0, 0, 0, time.UTC),
		time.Date(2026, time.April, 23, 0, 0, 0, 0, time.UTC), time.Date(2026, time.October, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2026, time.March, 7, 0, 0, 0, 0, time.UTC), time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, time.February, 14, 0, 0, 0, 0, time.UTC), time.Date(2026, time.March, 21, 0, 0, 0, 0, time.UTC), // Ramadan
		time.Date(2011, time.December, 29, 0, 0, 0, 0, time.UTC), time.Date(2018, time.November, 3, 0, 0, 0, 0, time.UTC),
		time.Date(2028, time.December, 30, 0, 0, 0, 0, time.UTC), time.Date(2096, time.December, 30, 0, 0, 0, 0, time.UTC),
	}
	zones := []string{
		"", "UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Africa/Cairo", "Africa/Casablanca", "Asia/Kathmandu",
		"Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham", "Asia/Beirut", "America/Havana",
	}
	skipped, twice := 0, 0
	for seed := range uint64(1200) {
		random := rand.New(rand.NewPCG(3, seed))
		minutes, hours := distinct(random, 60, 2), distinct(random, 5, 2)
		weekdays := distinct(random, 7, 5)
		cron := fmt.Sprintf("%d,%d %d,%d * * %d,%d,%d,%d,%d", minutes[0], minutes[1], hours[0], hours[1], weekdays[0], weekdays[1], weekdays[2], weekdays[3], weekdays[4])
		zone := zones[random.IntN(len(zones))]
		w, err := parseWindow(&nhcv1alpha1.BudgetSchedule{Cron: cron, TimeZone: zone, Duration: metav1.Duration{Duration: time.Second}})
		require.NoError(t, err)
		matches := func(local time.Time) bool {
			return slices.Contains(minutes, local.Minute()) && slices.Contains(hours, local.Hour()) && slices.Contains(weekdays, int(local.Weekday()))
		}
		begin := days[random.IntN(len(days))].Add(time.Duration(random.Int64N(int64(24 * time.Hour))))
		moment, seen := w.next(begin), map[string]bool{}
		_, before := begin.In(w.location).Zone()
		for at := begin.Truncate(time.Minute).Add(time.Minute); at.Before(begin.Add(48 * time.Hour)); at = at.Add(time.Minute) {
			local := at.In(w.location)
			due := matches(local)
			_, offset := local.Zone()
			for clock := before; clock < offset; clock += 60 { // Minutes that the clocks skip.
				if local := at.Add(time.Duration(clock-before) * time.Second).In(time.FixedZone("", before)); matches(local) && !due {
					due = true
					skipped++
				}
			}
			if due {
				require.Equal(t, at.UTC(), moment.UTC(), "seed %d: %q in %q after %s", seed, cron, zone, begin)
				if shown := local.Format(time.DateTime); seen[shown] {
					twice++
				} else {
					seen[shown] = true
				}
				moment = w.next(moment)
			}
			before = offset
		}
		require.False(t, moment.Before(begin.Add(48*time.Hour).Truncate(time.Minute)), "seed %d: %q in %q after %s: %s", seed, cron, zone, begin, moment)
	}
	t.Logf("%d were skipped, %d came twice", skipped, twice)
	require.Greater(t, skipped, 5)
	require.Greater(t, twice, 5)
}

// distinct returns some of the numbers below n.
func distinct(random *rand.Rand, n, some int) []int { return random.Perm(n)[:some] }

// TestPhaseIsWhenOneIsOpen: a budget applies if some schedule has opened within its duration, and
// the phases follow one another.
func TestPhaseIsWhenOneIsOpen(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(4, seed))
		var options []option
		for range 1 + random.IntN(4) {
			cron := fmt.Sprintf("%d */%d * * *", random.IntN(60), 1+random.IntN(24))
			options = append(options, schedule(cron, "Europe/Berlin", time.Duration(1+random.IntN(400))*time.Minute))
		}
		parsed := Parse(budget("b", append(options, maxConcurrent("0"))...))
		require.Empty(t, parsed.Problem)
		now := time.Date(2026, time.March, 28, random.IntN(24), random.IntN(60), random.IntN(60), 0, time.UTC)
		last := (&counted{Budget: parsed}).at(now)
		for range 20 {
			phase := parsed.phaseAt(now)
			open := slices.ContainsFunc(parsed.windows, func(w window) bool {
				return !w.next(now.Add(-w.duration)).After(now)
			})
			require.Equal(t, open, phase.applies, "seed %d at %s", seed, now)
			if last.covers(now) {
				require.Equal(t, last.applies, phase.applies, "seed %d: the phase of %s holds at %s", seed, last.from, now)
				require.True(t, last.until.IsZero() || last.until.Equal(phase.until), "seed %d: it ends when it was said to", seed)
			} else if now.Equal(last.until) {
				require.NotEqual(t, last.applies, phase.applies, "seed %d: it ends when it was said to", seed)
			}
			last = &phase
			if now = now.Add(time.Duration(random.IntN(200)) * time.Minute); random.IntN(2) == 0 && !phase.recheck.IsZero() {
				now = phase.recheck
			}
		}
	}
}
