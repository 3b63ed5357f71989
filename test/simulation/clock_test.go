// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"sync"
	"time"
)

// readsPerSecond is how often a process may read its clock in a second of virtual time:
// every sync does. One that reads it more often is woken again and again for nothing.
const readsPerSecond = 20_000

// countingClock is the clock of a process. It finds syncs that follow each other at once and
// without end: in virtual time, these would stop everything.
type countingClock struct {
	mu     sync.Mutex
	second int64
	reads  int
	// loops is set once the clock was read too often.
	loops bool
}

// Now implements clock.PassiveClock.
func (c *countingClock) Now() time.Time {
	if c.tooOften() {
		time.Sleep(time.Second)
	}
	return time.Now()
}

func (c *countingClock) tooOften() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if second := time.Now().Unix(); second != c.second {
		c.second, c.reads = second, 0
	}
	c.reads++
	if c.reads > readsPerSecond {
		c.loops = true
	}
	return c.reads > readsPerSecond
}

// Since implements clock.PassiveClock.
func (c *countingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// looped reports whether the clock was read too often.
func (c *countingClock) looped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loops
}
