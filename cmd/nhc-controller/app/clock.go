// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// skewAdjustedClock is the clock of the machine, held back to that of the API server while
// it is ahead of that. Almost all times that are compared with it were written by others:
// when a CR was created, a condition changed, a lease was renewed. A clock that is ahead
// makes all of them older than they are: nodes are unhealthy, steps over and leases
// expired too early. A clock that is behind only makes the controller late, and is left
// alone.
//
// The API server sends its time in the Date header of every answer. All methods may be
// called from any goroutine.
type skewAdjustedClock struct {
	clock.RealClock
	read func() machineTime
	// changed is called when the offset has become another one. It may be nil.
	changed func()

	mu sync.Mutex
	// base is what the clock of the machine is compared with to notice that it was set.
	base machineTime
	// answers are the last ones that count, the oldest first, and answered is when the last
	// one came.
	answers  []clockSample
	answered time.Duration
	// offset is by how much the clock of the machine is ahead of that of the API server,
	// and reported is what was last logged.
	offset, reported time.Duration
}

// machineTime is one reading of the clocks of the machine.
type machineTime struct {
	wall time.Time
	// passed is by the monotonic clock, which cannot be set.
	passed time.Duration
}

// clockSample is what an answer says: the clock of the machine is ahead by at least and at
// most so much. Negative values mean that it is behind.
type clockSample struct{ least, most time.Duration }

const (
	// toleratedOffset does no harm. A Date has no fractions of a second either.
	toleratedOffset = 3 * time.Second
	// maxOffset is how far the clock is held back at most. Beyond that, one of the clocks
	// is so wrong that it is not known which times can be compared at all.
	maxOffset = 5 * time.Minute
	// minAnswers is the number of answers without which there is no offset. The caches
	// cannot be filled by fewer requests, and nothing begins before that.
	minAnswers = 3
	// maxAnswers is the number of answers that count, and answerGap the time between them,
	// once there are a few: a burst of answers of one API server must not outvote the others.
	maxAnswers = 10
	fewAnswers = 5
	answerGap  = time.Second
	// leastSetting is the least step of the clock of the machine that is noticed.
	leastSetting = time.Second
)

// newSkewAdjustedClock returns a clock that has not heard of the API server's yet.
func newSkewAdjustedClock(registry prometheus.Registerer) (*skewAdjustedClock, error) {
	start := time.Now()
	c := &skewAdjustedClock{base: machineTime{wall: start}}
	c.read = func() machineTime {
		now := time.Now()
		return machineTime{wall: now, passed: now.Sub(start)}
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nhc_clock_ahead_seconds",
		Help: "By how much the clock of this machine is ahead of that of the API server; 0 if by less than 3 seconds. It is held back by as much, at most by 300 seconds: beyond that no remediation begins.",
	}, func() float64 {
		_, offset := c.now()
		return offset.Seconds()
	})
	if err := registry.Register(gauge); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

// now reads the clock of the machine, and returns by how much it is ahead.
func (c *skewAdjustedClock) now() (machineTime, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.read()
	c.followSetting(now)
	return now, c.offset
}

// Now implements [clock.PassiveClock].
func (c *skewAdjustedClock) Now() time.Time {
	now, offset := c.now()
	if offset == 0 {
		return now.wall
	}
	// Without the monotonic reading: what was read before the clock of the machine was set
	// has to be compared by the wall clock.
	return now.wall.Round(0).Add(-min(offset, maxOffset))
}

// Since implements [clock.PassiveClock].
func (c *skewAdjustedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// trusted reports whether remediations may begin by this clock.
func (c *skewAdjustedClock) trusted() bool {
	_, offset := c.now()
	return offset <= maxOffset
}

// wrap returns a transport that compares the clocks with every answer.
func (c *skewAdjustedClock) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		sent := c.read()
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		if date, dateErr := http.ParseTime(response.Header.Get("Date")); dateErr == nil {
			c.observe(klog.FromContext(request.Context()), sent, c.read(), date)
		}
		return response, nil
	})
}

// observe takes account of an answer. The API server wrote the date, cut to whole seconds,
// at some time between the sending of the request and the arrival of the answer. What has
// passed in between is known even if the clock was set meanwhile.
func (c *skewAdjustedClock) observe(logger klog.Logger, sent, received machineTime, date time.Time) {
	most := received.wall.Round(0).Sub(date)
	if c.add(clockSample{least: most - (received.passed - sent.passed) - time.Second, most: most}, received) {
		_, offset := c.now()
		logger.Info("The clock of this machine is ahead of the API server's by a different amount than before, check time synchronization on both",
			"ahead", offset, "heldBack", min(offset, maxOffset), "trusted", offset <= maxOffset)
		if c.changed != nil {
			c.changed()
		}
	}
}

// add adds an answer if it counts, and reports whether the offset has changed since that
// was last reported.
func (c *skewAdjustedClock) add(sample clockSample, received machineTime) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followSetting(received)
	if len(c.answers) < fewAnswers || received.passed-c.answered >= answerGap {
		c.answers = append(c.answers[max(0, len(c.answers)-maxAnswers+1):], sample)
		c.answered = received.passed
		c.offset = c.judge()
	}
	changed := c.offset != c.reported
	c.reported = c.offset
	return changed
}

// followSetting corrects the answers if the clock of the machine was set: it differs
// from the API server's by as much more, or less, than when they came.
func (c *skewAdjustedClock) followSetting(now machineTime) {
	set := now.wall.Round(0).Sub(c.base.wall.Round(0)) - (now.passed - c.base.passed)
	if set.Abs() < leastSetting {
		return
	}
	c.base = now
	for i := range c.answers {
		c.answers[i].least += set
		c.answers[i].most += set
	}
	c.offset = c.judge()
}

// judge returns the offset by the answers. All but one of them must agree that the clock
// is ahead by so much: neither a single answer nor one API server of several counts
// against the others.
func (c *skewAdjustedClock) judge() time.Duration {
	if len(c.answers) < minAnswers {
		return 0
	}
	ordered := slices.SortedFunc(slices.Values(c.answers), func(a, b clockSample) int { return cmp.Compare(a.most, b.most) })
	switch a := ordered[1]; {
	case c.offset >= a.least-toleratedOffset && c.offset <= a.most+toleratedOffset:
		return c.offset
	case a.least > toleratedOffset:
		return a.most
	default:
		return 0
	}
}
