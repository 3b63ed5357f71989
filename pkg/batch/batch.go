// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package batch bounds how much a sync does at once (spec 8.4). It is repeated at once while more
// waits. So it notices in time what has changed meanwhile, however much there is to do.
package batch

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// MaxSize is the largest number of items in a batch, and MaxTime how long it may take new
	// ones.
	MaxSize = 256
	MaxTime = 300 * time.Millisecond
	// MaxActing is how many items are acted on at the same time. The client's rate limit bounds
	// the whole process.
	MaxActing = 32
)

// Run calls act for the items of one batch, side by side, and deferred for the rest, each with the
// index of the item. It returns when all calls have.
func Run(clock clock.PassiveClock, items int, act, deferred func(i int)) {
	end := clock.Now().Add(MaxTime)
	acting := make(chan struct{}, MaxActing)
	var wg sync.WaitGroup
	for i := range items {
		acting <- struct{}{}
		if i >= MaxSize || !clock.Now().Before(end) {
			<-acting
			deferred(i)
			continue
		}
		wg.Go(func() {
			defer func() { <-acting }()
			act(i)
		})
	}
	wg.Wait()
}
