// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package batch bounds how much a sync does at once (spec 8.4). While targets are left, the sync is repeated at
// once. So the controller notices changes in time, also with much to do.
package batch

import (
	"context"
	"slices"
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
	// MaxActing is how many targets of a batch are acted on at the same time. The client's rate limit bounds the
	// whole process.
	MaxActing = 32
	// maxAsking is for how long all control plane targets of a sync may ask for the slot. Once a live read has taken
	// that long, no further one asks.
	maxAsking = 10 * time.Second
)

// Turn is when a sync acts on a target.
type Turn int8

// The turns.
const (
	// Never: there is nothing to do.
	Never Turn = iota
	// Ending: in the first batch. Creations that a webhook does not answer must not delay the deletions for nodes
	// that have recovered.
	Ending
	// Beginning: in the second batch.
	Beginning
	// ControlPlane: beside the second batch, one after the other, because the first one that may gets the slot.
	ControlPlane
)

// Act calls act for the targets of these turns, and waits for all answers: each request has a limit of its own. It
// returns their outcomes: Deferred for one that is left to the next sync. asking is for what a target of the control
// plane has to ask before it may begin.
func Act(ctx context.Context, clock clock.PassiveClock, turns []Turn, act func(asking context.Context, i int) remediation.Outcome) []*remediation.Outcome {
	outcomes := slices.Repeat([]*remediation.Outcome{&notActed}, len(turns))
	var inOrder sync.WaitGroup
	for _, turn := range []Turn{Ending, Beginning} {
		if turn == Beginning {
			inOrder.Go(func() {
				asking, cancel := context.WithTimeout(ctx, maxAsking)
				defer cancel()
				for i := range turns {
					if turns[i] == ControlPlane {
						outcomes[i] = new(act(asking, i))
					}
				}
			})
		}
		run(clock, turns, turn, outcomes, func(i int) remediation.Outcome { return act(ctx, i) })
	}
	inOrder.Wait()
	return outcomes
}

// The outcomes of targets without a turn, and of those that are left to the next sync.
var notActed, deferred = remediation.Outcome{}, remediation.Outcome{Result: remediation.Deferred}

// run carries out one batch: the targets of a turn, side by side.
func run(clock clock.PassiveClock, turns []Turn, turn Turn, outcomes []*remediation.Outcome, act func(i int) remediation.Outcome) {
	slots, end, size := make(chan struct{}, MaxActing), clock.Now().Add(MaxTime), 0
	var begun sync.WaitGroup
	defer begun.Wait()
	for i := range turns {
		if turns[i] != turn {
			continue
		}
		if size++; size > MaxSize || !acquire(slots, clock, end) {
			size = MaxSize // Nor does any other one begin.
			outcomes[i] = &deferred
			continue
		}
		begun.Go(func() {
			defer func() { <-slots }()
			outcomes[i] = new(act(i))
		})
	}
}

// acquire waits for a slot until the end of a batch, and reports whether it has got one in time.
func acquire(slots chan struct{}, clock clock.PassiveClock, end time.Time) bool {
	timer := time.NewTimer(end.Sub(clock.Now()))
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
	case <-timer.C:
		return false
	}
	if clock.Now().Before(end) {
		return true
	}
	<-slots
	return false
}
