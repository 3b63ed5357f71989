// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
