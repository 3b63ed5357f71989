// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package nodehealthcheck

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSyncAllocatesLittleForWaitingNodes: a sync that changes nothing allocates less than 1,100
// bytes for each node that waits. That is enough for nodes, plans and entries, but not for a
// second copy of one of them. The smallest of several syncs counts.
func TestSyncAllocatesLittleForWaitingNodes(t *testing.T) {
	s := newSteadyCluster(t, benchNodes(10_000, func(i int) bool { return i%5 < 3 }))
	least := uint64(math.MaxUint64)
	for range 10 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.mustSync(t)
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	require.Less(t, least, uint64(6_700_000), "bytes for 6,000 waiting nodes")
}

// TestSyncAllocatesNothingForHealthyNodes: a healthy node costs a sync no allocation.
func TestSyncAllocatesNothingForHealthyNodes(t *testing.T) {
	allocations := func(n int) float64 {
		s := newSteadyCluster(t, benchNodes(n, noNode))
		return testing.AllocsPerRun(20, func() { s.mustSync(t) })
	}
	few, many := allocations(1000), allocations(5000)
	// What holds the list of nodes grows in steps.
	require.InDelta(t, few, many, 20, "allocations with 1000 and with 5000 nodes")
}
