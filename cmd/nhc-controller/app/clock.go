// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// prudentClock is the clock of the machine, held back to that of the API server when it
// is ahead of that. Almost all times that are compared with it were written by others:
// when a CR was created, a condition changed, a lease was renewed. A clock that is ahead
// makes all of them older than they are: nodes are unhealthy, steps over and leases
// expired too early. One that is behind makes the controller late, and is left alone:
// which of the two clocks is wrong nobody can tell, and the earlier one does no harm. Only
// a lease must not be taken for one from the future because of it, see spread.
//
// The API server tells its time in the Date header of every answer. All methods may be
// called from any goroutine.
type prudentClock struct {
	clock.RealClock

	mu sync.Mutex
	// ahead is by how much the clock of the machine is ahead of that of the API server,
	// and held back. Behind is by how much it is behind.
	ahead, behind headStart
}

// headStart is by how much one clock is ahead of another one, zero if it is not.
type headStart struct {
	time.Duration
	// seen is when an answer last said that it is so far ahead.
	seen time.Time
}

const (
	// tolerated is how far ahead a clock may be: that makes nobody late, and a Date has
	// no fractions of a second.
	tolerated = 3 * time.Second
	// forgiven is how long no answer must have said that a clock is so far ahead. Among
	// several API servers the one counts that is furthest away.
	forgiven = time.Minute
)

// newPrudentClock returns a clock that has not heard of any other one yet.
func newPrudentClock(registry prometheus.Registerer) (*prudentClock, error) {
	c := &prudentClock{}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nhc_clock_ahead_seconds",
		Help: "By how much the clock of this machine is ahead of that of the API server, and therefore held back; negative if it is behind. 0 if by less than 3 seconds.",
	}, func() float64 {
		ahead, behind := c.headStarts()
		if ahead > 0 {
			return ahead.Seconds()
		}
		return -behind.Seconds()
	})
	if err := registry.Register(gauge); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

func (c *prudentClock) headStarts() (ahead, behind time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead.Duration, c.behind.Duration
}

// spread returns by how much a clock of the cluster is known to be ahead of this one,
// which may be that of a holder of leases.
func (c *prudentClock) spread() time.Duration {
	ahead, behind := c.headStarts()
	return ahead + behind
}

// Now implements [clock.PassiveClock].
func (c *prudentClock) Now() time.Time {
	now := c.RealClock.Now()
	ahead, _ := c.headStarts()
	if ahead == 0 {
		return now
	}
	// Without the monotonic reading: what was read before the clock of the machine jumped
	// has to be compared by the wall clock.
	return now.Round(0).Add(-ahead)
}

// Since implements [clock.PassiveClock].
func (c *prudentClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// wrap returns a transport that listens to what the API server says of its time.
func (c *prudentClock) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		sent := c.RealClock.Now()
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		if date, dateErr := http.ParseTime(response.Header.Get("Date")); dateErr == nil {
			c.observe(klog.FromContext(request.Context()), sent, c.RealClock.Now(), date)
		}
		return response, nil
	})
}

// observe compares the clocks. The API server wrote the date, cut to whole seconds, at
// some time between the sending of the request and the arrival of the answer. If these are
// far apart, because somebody hung, that says little.
func (c *prudentClock) observe(logger klog.Logger, sent, received, date time.Time) {
	least, most := sent.Round(0).Sub(date.Add(time.Second)), received.Round(0).Sub(date)
	if most < least {
		return // The clock of this machine was set back meanwhile.
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ahead, behind := c.ahead.update(least, most, received), c.behind.update(-most, -least, received)
	if ahead || behind {
		logger.Info("The clocks of this machine and of the API server are apart by another time, the earlier one counts; check time synchronization on both",
			"ahead", c.ahead.Duration, "behind", c.behind.Duration)
	}
}

// update takes account of an answer at this time, by which it is between two values,
// and tells whether it has become another one by more than what is tolerated.
func (h *headStart) update(least, most time.Duration, now time.Time) (changed bool) {
	before := h.Duration
	switch {
	case least > tolerated && most >= h.Duration-tolerated:
		h.seen = now
		if h.Duration < least || h.Duration > most {
			h.Duration = most
		}
	case most < h.Duration-tolerated && now.Sub(h.seen) >= forgiven:
		h.seen, h.Duration = now, most
		if least <= tolerated {
			h.Duration = 0
		}
	}
	return (h.Duration - before).Abs() > tolerated
}
