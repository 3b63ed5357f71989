// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestBatch: a sync acts on a limited number of targets, or as many as begin in 0.3 s, in their order (spec 8.4). It gets
// all answers, also late ones.
func TestBatch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		items int
		each  time.Duration
		begun int
		takes time.Duration
	}{
		"8.4 none":               {},
		"8.4 few":                {items: 40, begun: 40},
		"8.4 many":               {items: 1000, begun: MaxSize},
		"8.4 they take time":     {items: 1000, each: 100 * time.Millisecond, begun: 3 * MaxActing, takes: 300 * time.Millisecond},
		"8.4 they do not answer": {items: 1000, each: 10 * time.Second, begun: MaxActing, takes: 10 * time.Second},
		"8.4 exactly a batch":    {items: MaxSize, begun: MaxSize},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var acting atomic.Int32
				began := time.Now()
				outcomes := Act(t.Context(), clock.RealClock{}, slices.Repeat([]Turn{Beginning}, tc.items), func(context.Context, int) remediation.Outcome {
					if acting.Add(1) > MaxActing {
						t.Error("too many at the same time")
					}
					time.Sleep(tc.each)
					acting.Add(-1)
					return remediation.Outcome{Result: remediation.Created}
				})
				require.Equal(t, tc.takes, time.Since(began))
				for i, outcome := range outcomes {
					want := remediation.Created
					if i >= tc.begun {
						want = remediation.Deferred
					}
					require.Equal(t, want, outcome.Result, "%d: in their order", i)
				}
			})
		})
	}
}

// TestTurns: endings come before beginnings. Control plane targets begin one after the other, beside the others, and have
// 10 s to ask, together (spec 8.4, 12.2).
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, at := time.Now(), make([]time.Duration, 6)
		outcomes := Act(t.Context(), clock.RealClock{}, []Turn{ControlPlane, Beginning, Never, Ending, ControlPlane, ControlPlane}, func(asking context.Context, i int) remediation.Outcome {
			at[i] = time.Since(began)
			switch i {
			case 0, 4, 5: // Its list hangs.
				<-asking.Done()
			default:
				time.Sleep(time.Second)
			}
			return remediation.Outcome{Result: remediation.Created}
		})
		require.Empty(t, *outcomes[2])
		require.Equal(t, []time.Duration{time.Second, time.Second, 0, 0, 11 * time.Second, 11 * time.Second}, at)
	})
}
