// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/meter"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

var churnFor = flag.Duration("faults.churn", 17*time.Minute, "how long each of the rounds of TestChurn goes on, in the long form")

// eventsKept is longer than client-go keeps an event that it has written, to tell of more of
// the same kind in one: up to 12 minutes. They are most of what a controller keeps, and the
// more, the faster the machine.
const eventsKept = 13 * time.Minute

// TestChurn has one controller live through one environment after the other, each with nodes,
// NodeHealthChecks and remediations that come, change and go. When they and their kept events are
// gone, the controller holds no more than after the round before. It is the executable that users
// get, because the race detector keeps more and more memory.
func TestChurn(t *testing.T) {
	if !*longForm {
		t.Skip("what grows shows after minutes")
	}
	executable, err := filepath.Abs(filepath.Join(moduleRoot, "bin", "nhc-controller"))
	require.NoError(t, err)
	keeper := &environment{cluster: sharedCluster(t), t: t, seed: *firstSeed, executable: executable, logs: map[string]string{}}
	process := keeper.startAlone(nil)
	var held [2]holdings
	environments := uint64(0)
	for round := range held {
		for begin := time.Now(); time.Since(begin) < *churnFor; environments++ {
			if !t.Run(fmt.Sprintf("environment %d", environments), func(t *testing.T) {
				e := newEnvironment(t, *firstSeed+environments)
				e.usualLoad().run(t.Context(), 15*time.Second)
				e.requireSettled()
				e.requireSeen(5, 3)
			}) {
				return
			}
		}
		time.Sleep(eventsKept)
		held[round] = keeper.holdingsOf(process)
		t.Logf("after %d environments: %s", environments, held[round])
	}
	before, after := held[0], held[1]
	require.LessOrEqual(t, after.goroutines, before.goroutines+2)
	require.LessOrEqual(t, after.live, before.live*1.1, "live heap")
	require.LessOrEqual(t, float64(after.rss), float64(before.rss)*1.1, "resident")
}

// holdings are what a controller holds when nothing is left in its environment.
type holdings struct {
	goroutines float64
	live       float64 // Bytes of the heap that a collection has found in use.
	rss        int64   // Bytes.
}

// String is for the log.
func (h holdings) String() string {
	const mega = 1e6
	return fmt.Sprintf("%.0f goroutines, %.1f MB of live heap, %.1f MB resident", h.goroutines, h.live/mega, float64(h.rss)/mega)
}

// holdingsOf looks when two more collections are over: what the first one finds may have
// been in use when the last environment ended. Scrapes make enough garbage for them to come.
func (e *environment) holdingsOf(process *localkube.Process) holdings {
	e.t.Helper()
	var now holdings
	until := 0.0
	patience.Eventually(e.t, "two collections", func() bool {
		body, err := meter.Scrape(e.t.Context(), process, e.AdminConfig().BearerToken)
		require.NoError(e.t, err)
		cycles := meter.Sum(body, "go_gc_cycles_total_gc_cycles_total")
		require.Positive(e.t, cycles)
		if until == 0 {
			until = cycles + 2
		}
		now.goroutines, now.live = meter.Sum(body, "go_goroutines"), meter.Sum(body, "go_gc_heap_live_bytes")
		return cycles >= until
	})
	usage, err := meter.UsageOf(process.Pid())
	require.NoError(e.t, err)
	now.rss = usage.RSS
	require.Positive(e.t, min(now.goroutines, now.live, float64(now.rss)), "everything is measured")
	return now
}
