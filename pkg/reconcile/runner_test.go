// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

func TestMain(m *testing.M) {
	// The default handlers slow down repeated errors by a clock that all tests share; in a bubble,
	// where time starts anew, that would be for decades.
	utilruntime.ErrorHandlers = nil //nolint:reassign // before any test
	goleak.VerifyTestMain(m)
}

// TestEndOfASync: what a sync ends with says when the next one comes.
func TestEndOfASync(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "leases"}
	stale := &staleness.Error{Resource: resource}
	eachMinute := []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute}
	for name, tc := range map[string]struct {
		recheck time.Duration
		err     error
		// again are the times of the syncs after the first one, within an hour at most the first three.
		again []time.Duration
	}{
		"nothing to wait for":                  {},
		"a time to look again":                 {recheck: time.Minute, again: eachMinute},
		"P12 no cache is waited for for ever":  {err: &watches.UnreadableError{Cause: errors.New("no watch is open")}, again: eachMinute},
		"P9 a cache that lags is looked at":    {err: fmt.Errorf("reading: %w", stale), again: []time.Duration{20 * time.Millisecond, 60 * time.Millisecond, 140 * time.Millisecond}},
		"a conflict is retried with backoff":   {err: apierrors.NewConflict(resource, "a", nil), again: []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}},
		"P12 any other error is retried, too":  {err: errors.New("out of order"), again: []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}},
		"waiting wins over what else is wrong": {err: fmt.Errorf("%w: %w", watches.ErrPending, stale), again: eachMinute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var at []time.Duration
				begin := time.Now()
				drain := make(chan struct{})
				runner := &Runner{Queue: NewQueue(""), Key: "key", Clock: clock.RealClock{}}
				runner.Sync = func(context.Context, cache.ObjectName) (time.Time, error) {
					at = append(at, time.Since(begin))
					if len(at) == 4 {
						return time.Time{}, nil
					}
					if tc.recheck == 0 {
						return time.Time{}, tc.err
					}
					return time.Now().Add(tc.recheck), tc.err
				}
				runner.Queue.Add(cache.ObjectName{Name: "a"})
				go runner.Run(klog.NewContext(t.Context(), klog.Logger{}), drain, 2, nil)
				time.Sleep(time.Hour)
				close(drain)
				synctest.Wait()
				require.Equal(t, append([]time.Duration{0}, tc.again...), at)
			})
		})
	}
}

// TestRun: running syncs finish, waiting keys are left, and the function beside them ends,
// too.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drain := make(chan struct{})
		synced, broken := 0, false
		runner := &Runner{Queue: NewQueue(""), Key: "key", Clock: clock.RealClock{}, Sync: func(ctx context.Context, _ cache.ObjectName) (time.Time, error) {
			time.Sleep(time.Minute)
			synced++
			broken = ctx.Err() != nil
			return time.Time{}, nil
		}}
		runner.Queue.Add(cache.ObjectName{Name: "a"})
		runner.Queue.Add(cache.ObjectName{Name: "b"})
		ended := false
		beside := func(ctx context.Context) { <-ctx.Done(); ended = true }
		go func() { time.Sleep(time.Second); close(drain) }()
		require.True(t, runner.Run(klog.NewContext(t.Context(), klog.Logger{}), drain, 1, nil, beside))
		require.Equal(t, 1, synced)
		require.False(t, broken, "a request under way is finished")
		require.True(t, ended)
	})
}

// TestNeverBegun: the controller is stopped before its caches are filled.
func TestNeverBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drain := make(chan struct{})
		close(drain)
		runner := &Runner{Queue: NewQueue(""), Sync: func(context.Context, cache.ObjectName) (time.Time, error) { panic("no") }}
		runner.Queue.Add(cache.ObjectName{Name: "a"})
		store := cache.NewSharedIndexInformer(&cache.ListWatch{}, nil, 0, nil)
		require.False(t, runner.Run(klog.NewContext(t.Context(), klog.Logger{}), drain, 1, []cache.DoneChecker{store.HasSyncedChecker()}))
	})
}
