// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// apiAnswer is an answer of the API server.
type apiAnswer struct {
	after time.Duration // Since the one before.
	took  time.Duration
	// behind is by how much the API server's clock is behind that of the machine.
	behind time.Duration
	// late is how long the answer was on its way back, of the time it took.
	late time.Duration
	// set is by how much the clock of the machine is set, while the request is under way.
	set time.Duration
}

// often returns n times the same answer, as soon after each other as they count.
func often(n int, a apiAnswer) []apiAnswer {
	a.after = max(a.after, answerGap)
	answers := make([]apiAnswer, n)
	for i := range answers {
		answers[i] = a
	}
	return answers
}

// machine is the machine that the clock runs on.
type machine struct {
	start time.Time
	set   time.Duration
}

func (m *machine) read() machineTime {
	now := time.Now()
	return machineTime{wall: now.Round(0).Add(m.set), passed: now.Sub(m.start)}
}

func newTestClock(t *testing.T) (*skewAdjustedClock, *machine, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	c, err := newSkewAdjustedClock(registry)
	require.NoError(t, err)
	m := &machine{start: time.Now()}
	c.read, c.base = m.read, m.read()
	return c, m, registry
}

func TestSkewAdjustedClock(t *testing.T) {
	t.Parallel()
	const bit, far = 2 * time.Minute, time.Hour
	join := func(parts ...[]apiAnswer) (all []apiAnswer) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	one := func(a apiAnswer) []apiAnswer { return often(1, a) }
	right, ahead := apiAnswer{}, apiAnswer{behind: bit}
	for name, tc := range map[string]struct {
		answers []apiAnswer
		// ahead is the offset in the end, and changes are how often it has changed.
		ahead   time.Duration
		changes int
	}{
		"no answer":                           {},
		"right":                               {answers: often(20, right)},
		"within what is tolerated":            {answers: often(20, apiAnswer{behind: toleratedOffset})},
		"behind the API server":               {answers: often(20, apiAnswer{behind: -far})},
		"ahead":                               {answers: often(3, ahead), ahead: bit, changes: 1},
		"two answers are not enough":          {answers: often(2, ahead)},
		"ahead by little":                     {answers: often(3, apiAnswer{behind: 5 * time.Second}), ahead: 5 * time.Second, changes: 1},
		"one answer of an hour ago":           {answers: join(often(9, right), one(apiAnswer{behind: far}))},
		"the second answer is of an hour ago": {answers: join(one(right), one(apiAnswer{behind: far}), one(right))},
		"one answer of an hour ago, first":    {answers: join(one(apiAnswer{behind: far}), often(2, right))},
		"one answer of an hour later":         {answers: join(often(3, ahead), one(apiAnswer{behind: -far}), often(2, ahead)), ahead: bit, changes: 1},
		"one API server of two is right": {
			answers: join(often(5, right), one(apiAnswer{behind: far}), one(right), one(apiAnswer{behind: far}), one(right), often(3, apiAnswer{behind: far})),
		},
		"another API server, which goes wrong": {answers: join(often(10, right), often(9, ahead)), ahead: bit, changes: 1},
		"a burst of one API server counts once": {
			answers: join(often(10, right), one(ahead), burst(100, ahead)),
		},
		"further ahead":              {answers: join(often(3, ahead), often(10, apiAnswer{behind: 2 * bit})), ahead: 2 * bit, changes: 2},
		"far ahead":                  {answers: often(3, apiAnswer{behind: far}), ahead: far, changes: 1},
		"slow requests":              {answers: often(20, apiAnswer{took: time.Minute})},
		"slow answers":               {answers: often(20, apiAnswer{took: time.Minute, late: time.Minute})},
		"ahead, and a slow answer":   {answers: join(one(apiAnswer{behind: bit, took: time.Minute, late: time.Minute}), often(2, ahead)), ahead: bit, changes: 1},
		"set right":                  {answers: join(often(3, ahead), often(2, right)), changes: 2},
		"set right in part":          {answers: join(often(10, ahead), often(2, apiAnswer{behind: time.Minute})), ahead: time.Minute, changes: 2},
		"silence is no answer":       {answers: join(often(3, ahead), one(apiAnswer{after: time.Hour, behind: bit})), ahead: bit, changes: 1},
		"slow while it is set right": {answers: join(often(3, ahead), often(2, apiAnswer{took: time.Minute, late: time.Minute})), changes: 2},
		"it flutters around what is tolerated": {
			answers: join(often(3, apiAnswer{behind: 4500 * time.Millisecond}), often(20, apiAnswer{behind: 3500 * time.Millisecond})), ahead: 5 * time.Second, changes: 1,
		},
		// The clock of the machine is set, while requests are under way.
		"set forward":                     {answers: join(often(5, right), one(apiAnswer{behind: bit, set: bit})), ahead: bit, changes: 1},
		"set forward, before any answer":  {answers: one(apiAnswer{behind: bit, set: bit})},
		"set back to what is right":       {answers: join(often(5, ahead), one(apiAnswer{set: -bit})), changes: 2},
		"set back although it was right":  {answers: join(often(5, right), one(apiAnswer{behind: -far, set: -far}))},
		"set forward, to what is right":   {answers: join(often(5, apiAnswer{behind: -far}), one(apiAnswer{set: far}))},
		"set forth and back, and is slow": {answers: join(often(5, right), one(apiAnswer{behind: bit, set: bit, took: time.Minute}), one(apiAnswer{set: -bit, took: time.Minute})), changes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, m, registry := newTestClock(t)
				changes := 0
				c.changed = func() { changes++ }
				for _, answer := range tc.answers {
					time.Sleep(answer.after)
					answer.arrive(t, c, m)
				}
				held := min(tc.ahead, maxOffset)
				require.Equal(t, held, m.read().wall.Sub(c.Now()), "held back")
				require.Equal(t, time.Hour-held, c.Since(m.read().wall.Add(-time.Hour)))
				require.Equal(t, tc.ahead <= maxOffset, c.trusted())
				require.Equal(t, tc.changes, changes)
				metrics, err := registry.Gather()
				require.NoError(t, err)
				require.InDelta(t, tc.ahead.Seconds(), metrics[0].GetMetric()[0].GetGauge().GetValue(), 0)
			})
		})
	}
}

// burst returns n answers that come at once.
func burst(n int, a apiAnswer) []apiAnswer {
	answers := make([]apiAnswer, n)
	for i := range answers {
		answers[i] = a
	}
	return answers
}

// TestSkewAdjustedClockIsSet: that the clock of the machine was set is noticed without an
// answer.
func TestSkewAdjustedClockIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := newTestClock(t)
		for range fewAnswers {
			apiAnswer{}.arrive(t, c, m)
		}
		right := time.Now()
		for _, set := range []time.Duration{time.Minute, -time.Minute, time.Hour, 0} {
			m.set = set
			require.Equal(t, set <= maxOffset, c.trusted(), "by %s", set)
			want := right.Add(min(0, set))
			if set > maxOffset {
				want = right.Add(set - maxOffset)
			}
			require.WithinDuration(t, want, c.Now(), 0, "by %s", set)
		}
	})
}

// arrive has a client send a request and get this answer.
func (a apiAnswer) arrive(t *testing.T, c *skewAdjustedClock, m *machine) {
	t.Helper()
	transport := c.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		m.set += a.set
		time.Sleep(a.took - a.late)
		date := m.read().wall.Add(-a.behind)
		time.Sleep(a.late)
		return &http.Response{Body: http.NoBody, Header: http.Header{"Date": {date.UTC().Format(http.TimeFormat)}}}, nil
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://cluster/", http.NoBody)
	require.NoError(t, err)
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// What is no time is ignored.
func TestSkewAdjustedClockWithoutDate(t *testing.T) {
	t.Parallel()
	c, err := newSkewAdjustedClock(prometheus.NewRegistry())
	require.NoError(t, err)
	for _, date := range []string{"", "yesterday", "2006-11-21T10:00:00Z"} {
		transport := c.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: http.NoBody, Header: http.Header{"Date": {date}}}, nil
		}))
		for range maxAnswers {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://cluster/", http.NoBody)
			require.NoError(t, err)
			response, err := transport.RoundTrip(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
		}
		require.Zero(t, c.Since(time.Now()).Truncate(time.Second))
		require.True(t, c.trusted())
	}
}
