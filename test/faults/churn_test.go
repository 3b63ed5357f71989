// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/meter"
)

var churnFor = flag.Duration("faults.churn", time.Hour, "how long TestChurn goes on, in the long form")

// TestChurn has one controller live through one environment after the other, each with nodes,
// NodeHealthChecks and remediations that come, change and go. When an environment is gone, the
// controller keeps no more than it kept of the environments before. The first half of the time
// does not count: it fills buffers, and client-go keeps an event for up to 12 minutes, to
// tell of more of the same kind in one. It is the executable that users get: the race detector
// keeps more and more memory.
func TestChurn(t *testing.T) {
	if !*longForm {
		t.Skip("what grows shows after minutes")
	}
	executable, err := filepath.Abs(filepath.Join(moduleRoot, usersExecutable))
	require.NoError(t, err)
	keeper := &environment{cluster: sharedCluster(t), t: t, seed: *firstSeed, executable: executable}
	process := keeper.startAlone(nil)
	var kept []holdings
	for begin, n := time.Now(), 0; time.Since(begin) < *churnFor; n++ {
		if !t.Run(fmt.Sprintf("environment %d", n), func(t *testing.T) {
			e := newEnvironment(t, *firstSeed+uint64(n))
			e.usualLoad().run(t.Context(), 15*time.Second)
			e.requireSettled()
			e.requireSeen(5, 3)
		}) {
			return
		}
		if now := keeper.holdingsOf(process); time.Since(begin) > *churnFor/2 {
			kept = append(kept, now)
		}
	}
	requireSteady(t, kept)
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
	e.eventually("two collections", func() bool {
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
	e.t.Logf("kept: %s", now)
	return now
}

// requireSteady compares the last third with the first one, by the least of each: events
// fill the heap for minutes, until client-go throws many away at once.
func requireSteady(t *testing.T, kept []holdings) {
	t.Helper()
	third := len(kept) / 3
	require.Positive(t, third, "three environments at least")
	first, last := kept[:third], kept[len(kept)-third:]
	compare := func(what string, value func(holdings) float64, atMost func(before float64) float64) {
		before, after := least(first, value), least(last, value)
		t.Logf("%s: %.0f at first, %.0f in the end, after %d environments", what, before, after, len(kept))
		require.Positive(t, before, what)
		require.LessOrEqual(t, after, atMost(before), what)
	}
	tenth := func(before float64) float64 { return before*1.1 + 1e6 }
	compare("goroutines", func(h holdings) float64 { return h.goroutines }, func(before float64) float64 { return before + 2 })
	compare("live heap", func(h holdings) float64 { return h.live }, tenth)
	compare("resident", func(h holdings) float64 { return float64(h.rss) }, tenth)
}

func least(of []holdings, value func(holdings) float64) float64 {
	values := make([]float64, 0, len(of))
	for _, h := range of {
		values = append(values, value(h))
	}
	return slices.Min(values)
}
