// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

// TestBatch: a sync acts on so many items at most, or as many as begin in 0.3 s, in their order
// (spec 8.4).
func TestBatch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		items int
		each  time.Duration
		acted int
	}{
		"8.4 none":            {},
		"8.4 few":             {items: 40, acted: 40},
		"8.4 many":            {items: 1000, acted: MaxSize},
		"8.4 they take time":  {items: 1000, each: 100 * time.Millisecond, acted: 3 * MaxActing},
		"8.4 and too much":    {items: 1000, each: time.Minute, acted: MaxActing},
		"8.4 exactly a batch": {items: MaxSize, acted: MaxSize},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var acting atomic.Int32
				acted, deferred := make([]bool, tc.items), make([]bool, tc.items)
				Run(clock.RealClock{}, tc.items, func(i int) {
					if acting.Add(1) > MaxActing {
						t.Error("too many at the same time")
					}
					time.Sleep(tc.each)
					acted[i] = true
					acting.Add(-1)
				}, func(i int) { deferred[i] = true })
				require.Zero(t, acting.Load(), "all have returned")
				for i := range tc.items {
					require.Equal(t, i < tc.acted, acted[i], "%d: in their order", i)
					require.Equal(t, i >= tc.acted, deferred[i], "%d: one or the other", i)
				}
			})
		})
	}
}
