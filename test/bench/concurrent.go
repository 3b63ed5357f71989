// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// sideBySide calls do for 0 to n-1, with some calls at a time, until one fails.
func sideBySide(ctx context.Context, n, atATime int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	var wg sync.WaitGroup
	failures := make(chan error, atATime)
	for range atATime {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					failures <- err
					cancel()
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	var errs []error
	for err := range failures {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return context.Cause(ctx)
	}
	return errs[0] // The others are most often its consequence.
}

// atRate calls do with rising numbers at a rate per second, until ctx is done. What
// the machine is too slow for is left out, and not made up for later.
func atRate(ctx context.Context, rate, atATime int, do func(ctx context.Context, i int)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	calls := make(chan int)
	defer close(calls)
	for range atATime {
		wg.Go(func() {
			for i := range calls {
				do(ctx, i)
			}
		})
	}
	const tick = 10 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	begin, due := time.Now(), 0
	for number := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		until := int(time.Since(begin).Seconds() * float64(rate))
		late := max(0, until-due-rate/4) // At most a quarter of a second is kept waiting.
		for due += late; due < until; due++ {
			select {
			case calls <- number:
				number++
			case <-ctx.Done():
				return
			}
		}
	}
}

// errorCount keeps the first error of many that need not end a measurement.
type errorCount struct {
	mu    sync.Mutex
	count int
	first error
}

func (e *errorCount) add(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	if e.first == nil {
		e.first = err
	}
}

// failure returns the first error, and how many there were.
func (e *errorCount) failure() (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count, e.first
}
