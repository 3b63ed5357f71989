// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// apiAnswer is an answer of the API server.
type apiAnswer struct {
	took time.Duration
	// behind is by how much the API server's clock is behind that of the machine.
	behind time.Duration
	// late is how long the answer was on its way back, of the time it took.
	late time.Duration
	// set is by how much the clock of the machine is set, while the request is under way.
	set time.Duration
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

func newTestClock(t *testing.T) (*clockSkew, *machine, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	c, err := newClockSkew(registry)
	require.NoError(t, err)
	m := &machine{start: time.Now()}
	c.read = m.read
	return c, m, registry
}

// TestClockSkew: the answers of the API server show how far ahead the clock is (spec 23d.1).
func TestClockSkew(t *testing.T) {
	t.Parallel()
	const far = time.Hour
	right, ahead, behind := apiAnswer{}, apiAnswer{behind: far}, apiAnswer{behind: -far}
	often := func(n int, a apiAnswer) []apiAnswer { return slices.Repeat([]apiAnswer{a}, n) }
	one := func(a apiAnswer) []apiAnswer { return often(1, a) }
	for name, tc := range map[string]struct {
		answers []apiAnswer
		// burst are answers that come at once after these.
		burst []apiAnswer
		// untrusted is the final result, and changes is how often it has changed.
		untrusted bool
		changes   int
	}{
		"no answer":                         {},
		"right":                             {answers: often(20, right)},
		"ahead by what is tolerated":        {answers: often(20, apiAnswer{behind: maxAhead})},
		"ahead":                             {answers: often(3, ahead), untrusted: true, changes: 1},
		"behind the API server":             {answers: often(20, behind)},
		"two answers are not enough":        {answers: often(2, ahead)},
		"one answer of an hour ago":         {answers: slices.Concat(often(9, right), one(ahead))},
		"one answer of an hour ago, first":  {answers: slices.Concat(one(ahead), often(2, right))},
		"one answer of an hour later":       {answers: slices.Concat(often(3, ahead), one(behind), often(2, ahead)), untrusted: true, changes: 1},
		"one API server of two is right":    {answers: slices.Concat(often(5, right), one(ahead), one(right), one(ahead), one(right), often(3, ahead))},
		"another API server, which is late": {answers: slices.Concat(often(10, right), often(9, ahead)), untrusted: true, changes: 1},
		"a burst counts once":               {answers: often(10, right), burst: often(100, ahead)},
		"slow requests":                     {answers: often(20, apiAnswer{took: time.Minute})},
		"slow answers":                      {answers: often(20, apiAnswer{took: time.Minute, late: time.Minute})},
		"set right":                         {answers: slices.Concat(often(3, ahead), often(2, right)), changes: 2},
		// The clock of the machine is set, while requests are under way.
		"set forward":                    {answers: slices.Concat(often(5, right), one(apiAnswer{behind: far, set: far})), untrusted: true, changes: 1},
		"set back to what is right":      {answers: slices.Concat(often(5, ahead), one(apiAnswer{set: -far})), changes: 2},
		"set back although it was right": {answers: slices.Concat(often(5, right), one(apiAnswer{behind: -far, set: -far}))},
		"set forward, to what is right":  {answers: slices.Concat(often(5, behind), one(apiAnswer{set: far}))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, m, registry := newTestClock(t)
				changes := 0
				c.changed = func() { changes++ }
				for _, answer := range tc.answers {
					time.Sleep(answerGap)
					answer.arrive(t, c, m)
				}
				for _, answer := range tc.burst {
					answer.arrive(t, c, m)
				}
				require.Equal(t, tc.untrusted, !c.trusted())
				require.Equal(t, tc.changes, changes)
				metrics, err := registry.Gather()
				require.NoError(t, err)
				require.Equal(t, tc.untrusted, metrics[0].GetMetric()[0].GetGauge().GetValue() > maxAhead.Seconds())
			})
		})
	}
}

// TestClockIsSet: that the clock of the machine was set is noticed without an answer.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := newTestClock(t)
		for range minAnswers {
			apiAnswer{}.arrive(t, c, m)
		}
		for _, set := range []time.Duration{time.Second, -time.Hour, time.Hour, 0} {
			m.set = set
			require.Equal(t, set <= maxAhead, c.trusted(), "by %s", set)
		}
	})
}

// arrive lets a client send a request and get this answer.
func (a apiAnswer) arrive(t *testing.T, c *clockSkew, m *machine) {
	t.Helper()
	transport := c.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		m.set += a.set
		time.Sleep(a.took - a.late)
		date := m.read().wall.Add(-a.behind)
		time.Sleep(a.late)
		return &http.Response{Body: http.NoBody, Header: http.Header{"Date": {date.UTC().Format(http.TimeFormat)}}}, nil
	}))
	exchange(t, transport)
}

func exchange(t *testing.T, transport http.RoundTripper) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://cluster/", http.NoBody)
	require.NoError(t, err)
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// What is no time is ignored.
func TestClockSkewWithoutDate(t *testing.T) {
	t.Parallel()
	c, err := newClockSkew(prometheus.NewRegistry())
	require.NoError(t, err)
	for _, date := range []string{"", "yesterday", "2006-11-21T10:00:00Z"} {
		transport := c.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: http.NoBody, Header: http.Header{"Date": {date}}}, nil
		}))
		for range maxAnswers {
			exchange(t, transport)
		}
		require.True(t, c.trusted())
	}
}
