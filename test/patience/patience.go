// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package patience says how long a test waits for something that comes by itself. It bounds a failure and measures nothing.
package patience

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// idleLimit is enough on a machine with nothing else to do. mostTimes is how much longer a busy one may take.
const (
	idleLimit = 90 * time.Second
	mostTimes = 5
)

// Limit is how long a test waits: longer on a machine that was busy when the process began.
var Limit = func() time.Duration {
	average, _ := load()
	return limit(average / float64(runtime.NumCPU()))
}()

// limit returns how long to wait with this number of runnable processes for each processor. The tests themselves
// cause a few.
func limit(load float64) time.Duration {
	return time.Duration(float64(idleLimit) * min(max(load/4, 1), mostTimes))
}

// load returns the load of the last minute, and how many threads want to run now.
func load() (average float64, runnable int) {
	text, _ := os.ReadFile("/proc/loadavg") // Some systems do not have it.
	return parseLoad(string(text))
}

// parseLoad reads what Linux says, such as 0.20 0.18 0.12 1/80 11206. What it does not say is zero.
func parseLoad(text string) (average float64, runnable int) {
	var others [2]float64
	_, _ = fmt.Sscanf(text, "%f %f %f %d/", &average, &others[0], &others[1], &runnable)
	return average, runnable
}

// mostRunnable is how many threads for each processor may want to run when a test begins. Tests that all began at once
// would all be late.
const mostRunnable = 6

var beginning sync.Mutex

// AwaitCalm returns when the machine has time for one more test, after idleLimit at the latest: other work may keep it busy
// for hours.
func AwaitCalm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, idleLimit)
	defer cancel()
	beginning.Lock()
	defer beginning.Unlock()
	calm := false
	for !calm && ctx.Err() == nil {
		calm = runnablePerProcessor() <= mostRunnable
	}
}

// runnablePerProcessor returns how many threads want to run, on average of a fifth of a second.
func runnablePerProcessor() float64 {
	const samples = 10
	total := 0
	for range samples {
		time.Sleep(20 * time.Millisecond)
		_, runnable := load()
		total += runnable
	}
	return float64(total) / samples / float64(runtime.NumCPU())
}

// Eventually waits until something holds. A test whose context is done fails at once.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	err := wait.PollUntilContextTimeout(tb.Context(), 100*time.Millisecond, Limit, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		tb.Fatalf("did not come: %s", what)
	}
}
