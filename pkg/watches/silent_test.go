// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSilentList: the list is not answered, and no error comes either.
func TestSilentList(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.put(reboot, "1")
		w.delay.Store(int64(24 * time.Hour))
		w.want("one", reboot)
		w.notified()
		pass(listTimeout - 1)
		_, err := w.set.Cache(reboot)
		require.Equal(t, ErrPending, err, "21.2: nothing is decided before the cache has caught up")
		require.Empty(t, w.notified())

		pass(1)
		_, err = w.set.Cache(reboot)
		require.True(t, Unread(err), "P5: not an empty cache")
		require.ErrorIs(t, err, context.DeadlineExceeded, "with the cause, so that no sync waits for it")
		require.Equal(t, [][]string{{"one"}}, w.notified(), "P2: the owner that waits is told")
		require.ErrorIs(t, w.seen, context.DeadlineExceeded, "after the failure, not before")
		_, err = w.value(reboot)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, w.set.Caches(), reboot)
		_, read := w.set.LastCache(reboot)
		require.False(t, read)
		_, watched := w.set.StoreOf(resourceOf(reboot).GroupResource())
		require.False(t, watched, "no sync waits to see a write there")
		_, err = w.set.Mapping(reboot)
		require.NoError(t, err, "it is known where the kind is")

		pass(time.Hour)
		require.Empty(t, w.notified(), "P3: further attempts are no news")
		_, err = w.set.Cache(reboot)
		require.True(t, Unread(err), "however often the list is repeated")
		require.NotEqual(t, ErrPending, err)

		w.delay.Store(0)
		pass(2 * listTimeout)
		value, err := w.value(reboot)
		require.NoError(t, err, "P12: although the old request is never answered")
		require.Equal(t, "1", value)
		require.Equal(t, [][]string{{"one"}}, w.notified())
		require.Equal(t, 1, w.running(reboot))
	})
}

// TestSlowList: a list that takes its time is waited for.
func TestSlowList(t *testing.T) {
	for name, refused := range map[string]error{"fills": nil, "fails": errServer} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *fakeCluster) {
				w.delay.Store(int64(listTimeout - 1))
				if refused != nil {
					w.change(func() { w.refused["list reboottemplates"] = refused })
				}
				w.want("one", reboot)
				w.notified()
				pass(listTimeout - 2)
				_, err := w.set.Cache(reboot)
				require.Equal(t, ErrPending, err, "21.2")
				require.Empty(t, w.notified())
				pass(1)
				_, err = w.set.Cache(reboot)
				if refused != nil {
					require.ErrorContains(t, err, "out of order")
				} else {
					require.NoError(t, err)
				}
				require.Len(t, w.notified(), 1, "P2: not to wait any more")
			})
		})
	}
}

// TestNothingIsLeftOfAKind: what hangs for a kind ends when it has no owner any more, a
// probe by its timeout. That nothing is left when the set stops, the bubble of every test
// shows.
func TestNothingIsLeftOfAKind(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.hanging.Insert(reboot.Group) })
		w.delay.Store(int64(time.Hour))
		w.want("one", reboot, fence)
		require.Equal(t, int64(1), w.waiting.Load(), "a probe that hangs")
		require.Equal(t, int64(1), w.listing.Load(), "a list that hangs")
		w.want("one")
		require.Zero(t, w.listing.Load())
		pass(probeTimeout)
		require.Zero(t, w.waiting.Load())
	})
}

// TestManyHang: it does not matter how many kinds hang, and where.
func TestManyHang(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		var hanging []schema.GroupVersionKind
		for i := range 20 {
			hanging = append(hanging, schema.GroupVersionKind{Group: fmt.Sprintf("hangs-%d.example.com", i), Version: "v1", Kind: "X"})
		}
		w.change(func() {
			for _, gvk := range hanging {
				w.hanging.Insert(gvk.Group)
			}
		})
		w.want("one", hanging...)
		require.Equal(t, int64(len(hanging)), w.waiting.Load())
		w.want("two", fence)
		_, err := w.set.Cache(fence)
		require.NoError(t, err, "21.2: it delays no other kind")
		require.Equal(t, []string{"two"}, w.notifiedOwners())

		for range 100 {
			for _, gvk := range hanging {
				w.set.Recheck(gvk)
			}
			pass(time.Second)
			require.LessOrEqual(t, w.waiting.Load(), int64(len(hanging)), "never more probes than kinds")
		}
		require.Equal(t, []string{"one"}, w.notifiedOwners())
		w.want("one")
		pass(probeTimeout)
		require.Zero(t, w.waiting.Load())
	})
}

// counted counts what is under way.
func counted(n *atomic.Int64) (done func()) {
	n.Add(1)
	return func() { n.Add(-1) }
}
