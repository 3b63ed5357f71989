// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

func names(n int) []string {
	targets := make([]string, n)
	for i := range targets {
		targets[i] = fmt.Sprintf("node-%d", i)
	}
	return targets
}

// TestBatch: a sync acts on a limited number of targets, or as many as begin in 0.3 s, in their order, and waits
// three seconds for them (spec 8.4).
func TestBatch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		items int
		each  time.Duration
		begun int
		takes time.Duration
		late  bool
	}{
		"8.4 none":              {},
		"8.4 few":               {items: 40, begun: 40},
		"8.4 many":              {items: 1000, begun: MaxSize},
		"8.4 they take time":    {items: 1000, each: 100 * time.Millisecond, begun: 3 * MaxActing, takes: 300 * time.Millisecond},
		"8.4 they are slow":     {items: 1000, each: 2900 * time.Millisecond, begun: MaxActing, takes: 2900 * time.Millisecond},
		"8.4 and do not answer": {items: 1000, each: time.Minute, begun: MaxActing, takes: Patience, late: true},
		"8.4 exactly a batch":   {items: MaxSize, begun: MaxSize},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var group sync.WaitGroup
				var acting atomic.Int32
				a := New(clock.RealClock{}, &group, func() {})
				began := a.clock.Now()
				outcomes := a.Run(Beginning, names(tc.items), func(int) remediation.Outcome {
					if acting.Add(1) > MaxActing {
						t.Error("too many at the same time")
					}
					time.Sleep(tc.each)
					acting.Add(-1)
					return remediation.Outcome{Result: remediation.Created}
				})
				require.Equal(t, tc.takes, a.clock.Since(began))
				for i, outcome := range outcomes {
					want := remediation.Created
					switch {
					case i >= tc.begun:
						want = remediation.Deferred
					case tc.late:
						want = remediation.Unanswered
					}
					require.Equal(t, want, outcome.Result, "%d: in their order", i)
				}
				require.Equal(t, !tc.late, a.Idle())
				group.Wait()
				require.True(t, a.Idle())
			})
		})
	}
}

// TestRunAll: all answers are waited for.
func TestRunAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outcomes := RunAll(clock.RealClock{}, MaxActing+1, func(int) remediation.Outcome {
			time.Sleep(10 * time.Second)
			return remediation.Outcome{Result: remediation.Requested}
		})
		require.Equal(t, remediation.Requested, outcomes[0].Result)
		require.Equal(t, remediation.Deferred, outcomes[MaxActing].Result)
	})
}

// TestUnanswered: a target for which a request is not answered does not hold up the next batch of others, and its
// outcome is there once, when it has answered (spec 8.4).
func TestUnanswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		var woken atomic.Int32
		a := New(clock.RealClock{}, &group, func() { woken.Add(1) })
		hangs := func(i int) remediation.Outcome {
			if i == 1 {
				time.Sleep(10 * time.Second)
			}
			return remediation.Outcome{Result: remediation.Created, Reason: "first"}
		}
		outcomes := a.Run(Beginning, []string{"a", "b", "c"}, hangs)
		require.Equal(t, []remediation.Result{remediation.Created, remediation.Unanswered, remediation.Created},
			[]remediation.Result{outcomes[0].Result, outcomes[1].Result, outcomes[2].Result})
		for range 3 {
			require.Equal(t, remediation.Unanswered, a.Late()["b"].Result, "it must not be acted on as long as it has not answered")
			require.Len(t, a.Late(), 1)
			began := a.clock.Now()
			next := a.Run(Beginning, []string{"d"}, func(int) remediation.Outcome { return remediation.Outcome{Result: remediation.Created} })
			require.Equal(t, remediation.Created, next[0].Result)
			require.Zero(t, a.clock.Since(began), "others do not wait")
		}
		require.Zero(t, woken.Load())
		group.Wait()
		require.EqualValues(t, 1, woken.Load())
		require.Equal(t, map[string]*remediation.Outcome{"b": {Result: remediation.Created, Reason: "first"}}, a.Late())
		require.Empty(t, a.Late(), "once")
		require.Equal(t, remediation.Unanswered, outcomes[1].Result, "what was returned stays as it is")
	})
}

// TestLanes: any number of unanswered creations does not delay deletions (spec 8.4).
func TestLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		a := New(clock.RealClock{}, &group, func() {})
		a.Run(Beginning, names(MaxActing), func(int) remediation.Outcome {
			time.Sleep(10 * time.Second)
			return remediation.Outcome{Result: remediation.Created}
		})
		at := func(int) remediation.Outcome { return remediation.Outcome{Result: remediation.Recovered} }
		require.Equal(t, remediation.Deferred, a.Run(Beginning, []string{"x"}, at)[0].Result)
		require.Equal(t, remediation.Recovered, a.Run(Ending, []string{"x"}, at)[0].Result)
		group.Wait()
		require.Equal(t, remediation.Recovered, a.Run(Beginning, []string{"x"}, at)[0].Result)
	})
}
