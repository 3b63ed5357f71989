// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"sync"
	"time"
)

// readsPerSecond is how often a process may read its clock in a second of virtual time: every sync does, several
// times and once for each Node of a Machine. There are up to 150 of these. A process that reads it more often is
// woken again and again for nothing.
const readsPerSecond = 200_000

// countingClock is the clock of a process. It finds syncs that follow each other at once and
// without end, and panics: in virtual time they stop everything. To sleep instead would do the same
// where the process holds a mutex.
type countingClock struct {
	process string // With the name of the test.

	mu     sync.Mutex
	second int64
	reads  int
}

// Now implements clock.PassiveClock.
func (c *countingClock) Now() time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if second := now.Unix(); second != c.second {
		c.second, c.reads = second, 0
	}
	if c.reads++; c.reads > readsPerSecond {
		panic(fmt.Sprintf("P3: %s reads its clock without end: it is woken for nothing, at %s", c.process, clockOf(now)))
	}
	return now
}

// Since implements clock.PassiveClock.
func (c *countingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
