// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

// losses are the ways in which a kind that has been read cannot be followed any more.
var losses = map[string]struct {
	begin, end func(*fakeCluster)
	cause      string
}{
	"lists and watches fail": {
		begin: func(w *fakeCluster) {
			w.refused["watch reboottemplates"] = errServer
			w.refused["list reboottemplates"] = errServer
		},
		end:   func(w *fakeCluster) { clear(w.refused) },
		cause: errServer.Error(),
	},
	"watches fail": {
		begin: func(w *fakeCluster) { w.refused["watch reboottemplates"] = errServer },
		end:   func(w *fakeCluster) { clear(w.refused) },
		cause: errServer.Error(),
	},
	"lists are not answered": {
		begin: func(w *fakeCluster) {
			w.delay.Store(int64(time.Hour))
			w.refused["watch reboottemplates"] = errServer
		},
		end: func(w *fakeCluster) {
			w.delay.Store(0)
			clear(w.refused)
		},
		cause: errServer.Error(),
	},
}

// TestLostKind: a cache that does not follow the API server counts as unreadable, although
// it was filled once (spec P1, P5, 6.8).
func TestLostKind(t *testing.T) {
	for name, loss := range losses {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *fakeCluster) {
				w.put(reboot, "1")
				w.want("one", reboot)
				pass(time.Hour)
				w.notified()
				w.change(func() { loss.begin(w) })
				w.breakWatches(reboot)
				pass(StaleAfter - 1)
				_, err := w.set.Cache(reboot)
				require.NoError(t, err, "a restart of the API server is no news")
				require.Empty(t, w.notified())

				pass(1)
				_, err = w.set.Cache(reboot)
				require.True(t, Unread(err), "P5")
				require.ErrorContains(t, err, loss.cause, "with the cause, so that no sync waits for it")
				require.Equal(t, [][]string{{"one"}}, w.notified(), "P2")
				require.True(t, Unread(w.seen), "after the loss, not before")
				_, watched := w.set.StoreOf(resourceOf(reboot).GroupResource())
				require.False(t, watched, "no sync waits to see a write there")
				_, err = w.set.Mapping(reboot)
				require.NoError(t, err, "it is known where the kind is")
				_, err = w.value(reboot)
				require.True(t, Unread(err), "6.5: it may have been changed long ago")
				require.Contains(t, w.set.Caches(), reboot)
				_, read := w.set.LastCache(reboot)
				require.True(t, read)

				pass(10 * time.Minute)
				require.Empty(t, w.notified(), "P3: no flapping")
				_, err = w.set.Cache(reboot)
				require.Error(t, err)

				w.put(reboot, "2")
				w.change(func() { loss.end(w) })
				pass(time.Hour)
				_, err = w.set.Cache(reboot)
				require.NoError(t, err, "P12")
				require.Equal(t, [][]string{{"one"}}, w.notified(), "P2")
				require.NoError(t, w.seen)
				value, err := w.value(reboot)
				require.NoError(t, err)
				require.Equal(t, "2", value, "P2: what has happened meanwhile is seen")
			})
		})
	}
}

// TestOtherKindsAreNotLost: P1.
func TestOtherKindsAreNotLost(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.want("one", reboot, global)
		w.change(func() { w.refused["list reboottemplates"] = errServer })
		w.breakWatches(reboot)
		pass(time.Hour)
		_, err := w.set.Cache(reboot)
		require.Error(t, err)
		_, err = w.set.Cache(global)
		require.NoError(t, err)
	})
}

// TestQuietWatchIsNotLost: nothing happens for a long time, but that the API server ends
// watches now and then (spec P3).
func TestQuietWatchIsNotLost(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.want("one", reboot)
		w.notified()
		for range 24 {
			pass(time.Hour)
			_, err := w.set.Cache(reboot)
			require.NoError(t, err)
			w.breakWatches(reboot)
		}
		require.Empty(t, w.notified())
	})
}

// TestLostKindIsForgotten: no news of a kind that is not wanted any more.
func TestLostKindIsForgotten(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.want("one", reboot)
		w.change(func() { w.refused["list reboottemplates"] = errServer })
		w.breakWatches(reboot)
		pass(StaleAfter - time.Second)
		w.want("one")
		w.notified()
		pass(time.Hour)
		require.Empty(t, w.notified())
	})
}

// TestConnection: a connection fails from the first request after a list until a watch opens.
func TestConnection(t *testing.T) {
	inCluster(t, func(t *testing.T, _ *fakeCluster) {
		ctx, changes := klog.NewContext(t.Context(), klog.Logger{}), 0
		c := &connection{failed: func(error, bool) {}, changed: func() { changes++ }}
		state := func() []any { return []any{c.isStale(), changes} }
		c.request(ctx)
		pass(time.Hour)
		require.Equal(t, []any{false, 0}, state(), "nothing was listed: the cache is not filled")
		c.list()
		c.request(ctx)
		pass(StaleAfter - 1)
		c.request(ctx)
		require.Equal(t, []any{false, 0}, state())
		pass(1)
		require.Equal(t, []any{true, 1}, state(), "listed, and not watched since")
		require.ErrorIs(t, c.cause(), errLost)
		c.report(ctx, errServer)
		require.ErrorIs(t, c.cause(), errServer)
		c.list()
		c.request(ctx)
		pass(time.Hour)
		require.Equal(t, []any{true, 1}, state(), "P3: a list opens no watch")
		c.open(ctx)
		pass(settleAfter - 1)
		require.True(t, c.isStale(), "P5: the cache lacks what has happened meanwhile")
		pass(1)
		require.Equal(t, []any{false, 2}, state(), "P12")
		require.NoError(t, c.cause())
		c.request(ctx)
		pass(StaleAfter)
		require.Equal(t, []any{true, 3}, state(), "an end without a next watch")
	})
}
