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
	"k8s.io/klog/v2"
)

// apiAnswer is an answer of the API server.
type apiAnswer struct {
	after time.Duration // Since the one before.
	took  time.Duration
	// behind is by how much the API server's clock is behind that of the machine.
	behind time.Duration
	// late is how long the answer was on its way back, of the time it took.
	late time.Duration
	// held is by how much the clock is held back then, and lag by how much it is behind.
	held, lag time.Duration
}

func TestPrudentClock(t *testing.T) {
	t.Parallel()
	const far = 10 * time.Minute
	for name, answers := range map[string][]apiAnswer{
		"right":                      {{}, {after: time.Hour}},
		"within what is tolerated":   {{behind: tolerated}},
		"behind the API server":      {{behind: -far, lag: far + time.Second}, {behind: -far, took: time.Minute, lag: far + time.Second}},
		"behind, and set right":      {{behind: -far, lag: far + time.Second}, {lag: far + time.Second}, {after: forgiven}},
		"two API servers":            {{behind: -far, lag: far + time.Second}, {behind: far, held: far, lag: far + time.Second}},
		"ahead":                      {{behind: far, held: far}, {after: time.Hour, behind: far, held: far}},
		"a bit ahead":                {{behind: 5 * time.Second, held: 5 * time.Second}},
		"further ahead":              {{behind: far, held: far}, {behind: 2 * far, held: 2 * far}},
		"a slow request":             {{took: time.Minute}},
		"a slow answer":              {{took: time.Minute, late: time.Minute}},
		"ahead, and a slow answer":   {{behind: far, took: 40 * time.Second, late: 40 * time.Second, held: far + 40*time.Second}, {behind: far, held: far + 40*time.Second}, {after: forgiven, behind: far, held: far}},
		"the answer tells better":    {{behind: far, took: 2 * time.Second, late: 2 * time.Second, held: far + 2*time.Second}, {behind: far, held: far}},
		"a slow answer tells less":   {{behind: far, held: far}, {behind: far, took: time.Minute, late: time.Minute, held: far}},
		"set right":                  {{behind: far, held: far}, {held: far}, {after: forgiven}},
		"set right in part":          {{behind: far, held: far}, {after: forgiven, behind: time.Minute, held: time.Minute}},
		"one API server of two":      {{behind: far, held: far}, {after: 50 * time.Second, held: far}, {after: 50 * time.Second, behind: far, held: far}, {after: 50 * time.Second, held: far}},
		"silence is no answer":       {{behind: far, held: far}, {after: time.Hour, behind: far, held: far}},
		"slow while it is set right": {{behind: far, held: far}, {after: forgiven, took: time.Minute, late: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				c, err := newPrudentClock(registry)
				require.NoError(t, err)
				for i, answer := range answers {
					time.Sleep(answer.after)
					answer.arrive(t, c)
					require.Equal(t, answer.held, time.Since(c.Now()), "answer %d", i)
					require.Equal(t, time.Hour-answer.held, c.Since(time.Now().Add(-time.Hour)), "answer %d", i)
					require.Equal(t, answer.held+answer.lag, c.spread(), "answer %d", i)
					metrics, err := registry.Gather()
					require.NoError(t, err)
					told := answer.held
					if told == 0 {
						told = -answer.lag
					}
					require.InDelta(t, told.Seconds(), metrics[0].GetMetric()[0].GetGauge().GetValue(), 0)
				}
			})
		})
	}
}

// arrive has a client send a request and get this answer.
func (a apiAnswer) arrive(t *testing.T, c *prudentClock) {
	t.Helper()
	transport := c.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		time.Sleep(a.took - a.late)
		date := time.Now().Add(-a.behind)
		time.Sleep(a.late)
		return &http.Response{Body: http.NoBody, Header: http.Header{"Date": {date.UTC().Format(http.TimeFormat)}}}, nil
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://cluster/", http.NoBody)
	require.NoError(t, err)
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// TestPrudentClockIsSet: the clock of the machine is set while a request is under way.
func TestPrudentClockIsSet(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for name, jump := range map[string]time.Duration{"back": -10 * time.Minute, "forth": 10 * time.Minute} {
		c, err := newPrudentClock(prometheus.NewRegistry())
		require.NoError(t, err)
		for _, sent := range []time.Time{date, date.Add(-jump)} {
			c.observe(klog.Logger{}, sent, sent.Add(jump), date)
			require.Zero(t, c.spread(), name)
		}
	}
}

// What does not tell the time is ignored.
func TestPrudentClockWithoutDate(t *testing.T) {
	t.Parallel()
	c, err := newPrudentClock(prometheus.NewRegistry())
	require.NoError(t, err)
	for _, date := range []string{"", "yesterday", "2026-11-21T10:00:00Z"} {
		transport := c.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: http.NoBody, Header: http.Header{"Date": {date}}}, nil
		}))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://cluster/", http.NoBody)
		require.NoError(t, err)
		response, err := transport.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Zero(t, c.spread())
		require.Zero(t, c.Since(time.Now()).Truncate(time.Second))
	}
}
