// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package batch bounds how much a sync does at once, and how long it waits for that (spec 8.4). While
// targets are left, the sync is repeated at once. So the controller notices changes in time, also with
// much to do, or when a request is not answered.
package batch

import (
	"maps"
	"math"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

const (
	// MaxSize is the largest number of targets in a batch, and MaxTime how long it may take new
	// ones.
	MaxSize = 256
	MaxTime = 300 * time.Millisecond
	// Patience is how long a batch waits for what it has begun: several times what a busy API server takes,
	// because a report without the answer is one more write of the status.
	Patience = 3 * time.Second
	// MaxActing is how many targets of one health check are acted on at the same time in a lane. The
	// client's rate limit bounds the whole process.
	MaxActing = 32
)

// Lane separates endings from beginnings: creations that a webhook does not answer must not delay the
// deletions for nodes that have recovered.
type Lane int

// The lanes.
const (
	Ending Lane = iota
	Beginning
	lanes
)

// Acting acts on the targets of one health check, batch by batch. A request without an answer at the
// end of its batch goes on beside the next batches. The first sync after the answer gets the outcome.
type Acting struct {
	clock clock.PassiveClock
	// patience is how long a batch waits for what it has begun.
	patience time.Duration
	// group has all that is under way.
	group *sync.WaitGroup
	wake  func()
	slots [lanes]chan struct{}

	mu sync.Mutex
	// late has the outcomes of targets that had not answered when their batch ended, by name:
	// Unanswered until they do.
	late map[string]*remediation.Outcome
}

// New returns an Acting. It starts its goroutines in group, and calls wake after a late answer.
func New(clock clock.PassiveClock, group *sync.WaitGroup, wake func()) *Acting {
	a := &Acting{clock: clock, patience: Patience, group: group, wake: wake, late: map[string]*remediation.Outcome{}}
	for lane := range a.slots {
		a.slots[lane] = make(chan struct{}, MaxActing)
	}
	return a
}

// Idle reports whether everything has answered. It may be called from any goroutine.
func (a *Acting) Idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, outcome := range a.late {
		if outcome.Result == remediation.Unanswered {
			return false
		}
	}
	return true
}

// Late returns the outcomes of targets that had not answered when their batch ended, by name. This sync must
// not act on them. A result is Unanswered until the answer is there. The answer is returned once.
func (a *Acting) Late() map[string]*remediation.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	late := maps.Clone(a.late)
	maps.DeleteFunc(a.late, func(_ string, outcome *remediation.Outcome) bool { return outcome.Result != remediation.Unanswered })
	return late
}

// RunAll calls act for the indices of one batch, side by side, and waits for all answers, however long they
// take. The outcome is Deferred for one that is left to the next batch.
func RunAll(clock clock.PassiveClock, targets int, act func(i int) remediation.Outcome) []remediation.Outcome {
	a := New(clock, &sync.WaitGroup{}, nil)
	a.patience = math.MaxInt64
	return a.Run(Beginning, make([]string, targets), act)
}

// Run calls act for the targets of one batch in a lane, side by side, each with its index. It returns their
// outcomes: Deferred for one that is left to the next batch, Unanswered for one that has begun and goes on.
func (a *Acting) Run(lane Lane, targets []string, act func(i int) remediation.Outcome) []remediation.Outcome {
	outcomes := make([]remediation.Outcome, len(targets)) // Guarded by mu until the batch is over.
	var open sync.WaitGroup
	patience := time.NewTimer(a.patience)
	defer patience.Stop()
	over, end := false, a.clock.Now().Add(MaxTime)
	for i, target := range targets {
		if i >= MaxSize || !a.acquire(lane, end) {
			deferred(outcomes[i:])
			break
		}
		outcomes[i].Result = remediation.Unanswered
		open.Add(1)
		a.group.Go(func() {
			defer func() { <-a.slots[lane] }()
			defer open.Done()
			outcome := act(i)
			a.mu.Lock()
			defer a.mu.Unlock()
			if !over {
				outcomes[i] = outcome
				return
			}
			a.late[target] = &outcome
			a.wake()
		})
	}
	wait(&open, patience.C)
	a.mu.Lock()
	defer a.mu.Unlock()
	over = true
	for i, target := range targets {
		if outcomes[i].Result == remediation.Unanswered {
			a.late[target] = &remediation.Outcome{Result: remediation.Unanswered}
		}
	}
	return outcomes
}

// acquire waits for a slot until the end of a batch, and reports whether it has got one in time.
func (a *Acting) acquire(lane Lane, end time.Time) bool {
	timer := time.NewTimer(end.Sub(a.clock.Now()))
	defer timer.Stop()
	select {
	case a.slots[lane] <- struct{}{}:
	case <-timer.C:
		return false
	}
	if a.clock.Now().Before(end) {
		return true
	}
	<-a.slots[lane]
	return false
}

func deferred(outcomes []remediation.Outcome) {
	for i := range outcomes {
		outcomes[i].Result = remediation.Deferred
	}
}

// wait returns when the group is done, or on a timeout.
func wait(group *sync.WaitGroup, timeout <-chan time.Time) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-timeout:
	}
}
