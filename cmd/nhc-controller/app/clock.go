// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
)

const (
	// maxAhead is how far the clock of the machine may be ahead of that of the API server.
	maxAhead = 30 * time.Second
	// minAnswers is the smallest number of answers that can make the clock untrusted. The caches need more
	// requests than that to be filled, and nothing begins before.
	minAnswers = 3
	// maxAnswers is the number of answers that count. answerGap is the time between them, once there are
	// enough: a burst of answers of one API server must not outvote the others.
	maxAnswers = 10
	answerGap  = time.Second
)

// clockSkew compares the clock of the machine with that of the API server, which sends its time in the Date
// header of every answer. Decisions compare the clock with times that others have written: when a CR was
// created, a condition changed, a lease was renewed. To a clock that is ahead, these seem longer ago than they
// are. A clock that is behind only makes the controller late. All methods may be called from any goroutine.
type clockSkew struct {
	read func() machineTime
	// changed is called when the clock loses trust, and when it regains it. It may be nil.
	changed func()

	mu sync.Mutex
	// answers are the last answers that count, the oldest first. Each is the latest time that the clock of the
	// API server may have shown when the process started. So they stay true when the clock of the machine is set.
	answers  []time.Time
	answered time.Duration
	// untrusted is what was last logged.
	untrusted bool
}

// machineTime is one reading of the clocks of the machine.
type machineTime struct {
	wall time.Time
	// passed is by the monotonic clock since the process started. It cannot be set.
	passed time.Duration
}

// newClockSkew returns a comparison without any answer.
func newClockSkew(registry prometheus.Registerer) (*clockSkew, error) {
	start := time.Now()
	c := &clockSkew{read: func() machineTime {
		now := time.Now()
		return machineTime{wall: now.Round(0), passed: now.Sub(start)}
	}}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nhc_clock_ahead_seconds",
		Help: "By how much the clock of this machine is ahead of that of the API server at least; 0 if it is not. Beyond 30 seconds no remediation begins.",
	}, func() float64 { return c.ahead().Seconds() })
	if err := registry.Register(gauge); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

// ahead returns by how much the clock of the machine is ahead at least, zero if it is not. All answers except one
// have to agree: a single answer, or one API server of several, does not outvote the others.
func (c *clockSkew) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) < minAnswers {
		return 0
	}
	now := c.read()
	latest := slices.SortedFunc(slices.Values(c.answers), func(a, b time.Time) int { return b.Compare(a) })[1]
	return max(0, now.wall.Add(-now.passed).Sub(latest))
}

// trusted reports whether remediations may begin by the clock of the machine.
func (c *clockSkew) trusted() bool { return c.ahead() <= maxAhead }

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// wrap returns a transport that compares the clocks with every answer.
func (c *clockSkew) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		sent := c.read()
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		if date, dateErr := http.ParseTime(response.Header.Get("Date")); dateErr == nil {
			c.observe(klog.FromContext(request.Context()), sent, date)
		}
		return response, nil
	})
}

// observe takes account of an answer. The API server wrote the date, cut to whole seconds, after the request was
// sent.
func (c *clockSkew) observe(logger klog.Logger, sent machineTime, date time.Time) {
	c.add(date.Add(time.Second - sent.passed))
	ahead := c.ahead()
	c.mu.Lock()
	turned := c.untrusted != (ahead > maxAhead)
	c.untrusted = ahead > maxAhead
	c.mu.Unlock()
	if !turned {
		return
	}
	if ahead > maxAhead {
		logger.Error(nil, "The clock of this machine is ahead of the API server's, no remediation begins: check time synchronization on both", "ahead", ahead)
	} else {
		logger.Info("The clock of this machine is not ahead of the API server's any more")
	}
	if c.changed != nil {
		c.changed()
	}
}

// add adds an answer if it counts.
func (c *clockSkew) add(latest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.read().passed; len(c.answers) < minAnswers || now-c.answered >= answerGap {
		c.answers = append(c.answers[max(0, len(c.answers)-maxAnswers+1):], latest)
		c.answered = now
	}
}
