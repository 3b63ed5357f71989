// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

func TestWatchedKindComesAndGoes(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.put(reboot, "1")
		_, err := w.set.Cache(reboot)
		require.Equal(t, ErrPending, err, "no owner wants it yet")

		w.want("one", reboot)
		require.Equal(t, []string{"one"}, w.notifiedOwners(), "21.2")
		require.NoError(t, w.seen, "21.2: told when the cache is full")
		require.Equal(t, []string{"add x"}, w.events)
		value, err := w.value(reboot)
		require.NoError(t, err)
		require.Equal(t, "1", value)
		mapping, err := w.set.Mapping(reboot)
		require.NoError(t, err)
		require.Equal(t, resourceOf(reboot), mapping.Resource, "and not that of a subresource")
		require.Equal(t, meta.RESTScopeNameNamespace, mapping.Scope.Name())
		require.Len(t, w.set.Caches(), 1)
		store, watched := w.set.StoreOf(resourceOf(reboot).GroupResource())
		require.True(t, watched)
		require.Len(t, store.List(), 1)

		w.put(reboot, "2")
		value, err = w.value(reboot)
		require.NoError(t, err)
		require.Equal(t, "2", value)
		w.remove(reboot)
		_, err = w.value(reboot)
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		require.Equal(t, []string{"add x", "update x", "delete x"}, w.events)
		require.Empty(t, w.notified(), "events of objects are the handler's")

		w.want("one")
		require.Zero(t, w.running(reboot), "21.2: informers stop with those who need them")
		_, err = w.set.Cache(reboot)
		require.Equal(t, ErrPending, err)
		require.Empty(t, w.set.Caches())
		_, watched = w.set.StoreOf(resourceOf(reboot).GroupResource())
		require.False(t, watched)

		w.put(reboot, "3")
		w.want("one", reboot)
		value, err = w.value(reboot)
		require.NoError(t, err)
		require.Equal(t, "3", value, "a kind that comes back is read anew")
	})
}

func TestOwnersShareOneInformer(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.want("one", reboot, fence)
		w.want("two", reboot)
		w.want("two", reboot)
		require.Equal(t, 1, w.requests("list", reboot))
		require.Equal(t, 1, w.running(reboot))

		w.want("one", fence)
		require.Equal(t, 1, w.running(reboot), "two still wants it")
		w.want("two")
		require.Zero(t, w.running(reboot))
		require.Equal(t, 1, w.running(fence), "one still wants this one")
		require.Equal(t, 1, w.requests("list", fence), "21.2: it never noticed")
	})
}

func TestSteadySetIsSilent(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.want("one", reboot, global)
		before := len(w.client.Actions())
		w.notified()
		pass(3 * time.Hour)
		require.Empty(t, w.notified(), "P3")
		require.Len(t, w.client.Actions(), before, "P3")
	})
}

func TestNotServed(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.served.Delete(reboot, global) })
		w.want("one", reboot, fence)
		_, err := w.set.Mapping(reboot)
		require.True(t, meta.IsNoMatchError(err), "%v", err)
		_, err = w.value(reboot)
		require.True(t, meta.IsNoMatchError(err), "%v", err)
		require.Equal(t, 1, w.running(fence), "21.2: a kind that cannot be watched delays no other")
		require.Equal(t, []string{"one"}, w.notifiedOwners())

		pass(time.Hour)
		require.Empty(t, w.notified(), "P3: the same answer is no news")

		// The CRD is created; some seconds later it is served.
		w.set.Refresh(crdOf(reboot))
		pass(2 * time.Second)
		w.change(func() { w.served.Insert(reboot) })
		pass(3 * time.Second)
		require.Equal(t, 1, w.running(reboot), "6.4: within 5 s of the change of a CRD")
		require.Contains(t, w.notified(), []string{"one"})
		_, err = w.set.Cache(reboot)
		require.NoError(t, err)
	})
}

func TestNotServedIsPolled(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 7 * time.Second, time.Minute, time.Hour} {
		t.Run(after.String(), func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *fakeCluster) {
				w.change(func() { w.served.Clear() })
				w.want("one", reboot)
				pass(after)
				w.notified()
				w.change(func() { w.served.Insert(reboot) })
				pass(probeInterval)
				require.Equal(t, 1, w.running(reboot), "6.4: within 15 s, without any event")
				require.NotEmpty(t, w.notified())
			})
		})
	}
}

func TestGroupOfRefresh(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.served.Clear() })
		w.want("one", reboot)
		pass(time.Hour)
		w.change(func() { w.served.Insert(reboot) })
		w.set.Refresh("xa.example.com")
		synctest.Wait()
		require.Zero(t, w.running(reboot), "the CRD of another group is no reason")
		w.set.Refresh(crdOf(reboot))
		synctest.Wait()
		require.Equal(t, 1, w.running(reboot))
	})
}

func TestForbidden(t *testing.T) {
	for _, verb := range []string{"get", "list", "watch"} {
		t.Run(verb, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *fakeCluster) {
				w.change(func() { w.denied.Insert(verb+" reboottemplates", "watch reboottemplates") })
				w.want("one", reboot)
				w.want("two", fence)
				pass(confirmAfter)
				mapping, err := w.set.Mapping(reboot)
				require.Equal(t, &ForbiddenError{Verb: verb, Resource: resourceOf(reboot).GroupResource()}, err, "6.1: names verb, resource and group of the first one")
				require.Equal(t, resourceOf(reboot), mapping.Resource)
				_, err = w.set.Cache(reboot)
				require.Error(t, err)
				require.Empty(t, w.set.Caches()[reboot])
				require.Equal(t, 1, w.running(fence), "21.2")

				require.Equal(t, []string{"one", "two"}, w.notifiedOwners())
				pass(time.Hour)
				require.Empty(t, w.notified(), "P3: the same answer is no news")
				w.change(func() { w.denied.Clear() })
				pass(probeInterval)
				require.Equal(t, 1, w.running(reboot), "6.4 P12: granted, and used within 15 s")
				require.Contains(t, w.notified(), []string{"one"})
			})
		})
	}
}

// TestPermissionWithdrawn: the watch is refused, so the permission is looked at.
func TestPermissionWithdrawn(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.want("one", reboot)
		w.notified()
		w.change(func() {
			w.denied.Insert("list reboottemplates", "watch reboottemplates")
			w.refused["list reboottemplates"] = apierrors.NewForbidden(resourceOf(reboot).GroupResource(), "", nil)
			w.refused["watch reboottemplates"] = apierrors.NewForbidden(resourceOf(reboot).GroupResource(), "", nil)
		})
		w.breakWatches(reboot)
		pass(5 * time.Second)
		_, err := w.set.Cache(reboot)
		require.Equal(t, &ForbiddenError{Verb: "list", Resource: resourceOf(reboot).GroupResource()}, err)
		require.Equal(t, [][]string{{"one"}}, w.notified())

		w.change(func() { w.denied.Clear(); clear(w.refused) })
		pass(probeInterval)
		_, err = w.set.Cache(reboot)
		require.NoError(t, err, "P12")
	})
}

// TestKindDisappears: the watch ends and the kind is not found any more, though no
// event of a CRD has said so.
func TestKindDisappears(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.put(reboot, "1")
		w.want("one", reboot)
		w.notified()
		w.change(func() {
			w.served.Delete(reboot)
			w.refused["list reboottemplates"] = apierrors.NewNotFound(schema.GroupResource{}, "")
			w.refused["watch reboottemplates"] = apierrors.NewNotFound(schema.GroupResource{}, "")
		})
		w.breakWatches(reboot)
		pass(5 * time.Second)
		_, err := w.set.Cache(reboot)
		require.True(t, meta.IsNoMatchError(err), "1.3: %v", err)
		require.Equal(t, [][]string{{"one"}}, w.notified())

		lists := w.requests("list", reboot)
		pass(time.Hour)
		require.Equal(t, lists, w.requests("list", reboot), "P3: the informer has stopped")
	})
}

func TestRecheckKeepsWhatRuns(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.want("one", reboot)
		w.notified()
		w.set.Recheck(reboot)
		w.set.Recheck(fence) // Not wanted by anybody.
		synctest.Wait()
		require.Equal(t, 1, w.requests("list", reboot), "an informer that works goes on")
		require.Equal(t, 1, w.running(reboot))
		require.Empty(t, w.notified())
		_, err := w.set.Mapping(fence)
		require.Equal(t, ErrPending, err)
	})
}

func TestUnusualKinds(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		odd := []schema.GroupVersionKind{
			{}, {Kind: "X"}, {Version: "v1"},
			{Group: "a.example.com", Version: "v1", Kind: "reboottemplate"}, {Group: "a.example.com", Version: "v2", Kind: "RebootTemplate"},
		}
		w.want("one", odd...)
		for _, gvk := range odd {
			_, err := w.set.Mapping(gvk)
			require.True(t, meta.IsNoMatchError(err), "4.6: %v is not served: %v", gvk, err)
		}
	})
}

// TestCacheThatDoesNotFill: the permission is there, but the list fails.
func TestCacheThatDoesNotFill(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.refused["list reboottemplates"] = errServer })
		w.want("one", reboot)
		w.want("two", fence)
		_, err := w.set.Cache(reboot)
		require.True(t, Unread(err), "P5: not an empty cache")
		require.ErrorContains(t, err, "out of order", "but with the cause, so that no sync needs to wait")
		require.NotContains(t, w.set.Caches(), reboot)
		_, err = w.value(reboot)
		require.True(t, Unread(err))
		require.Contains(t, w.notified(), []string{"one"}, "those who wait for the cache are told")
		require.ErrorContains(t, w.seen, "out of order", "after the failure, not before")
		require.Equal(t, 1, w.running(fence), "21.2")

		pass(10 * time.Minute)
		require.Empty(t, w.notified(), "P3: further attempts that fail are no news")
		w.change(func() { clear(w.refused) })
		pass(time.Minute)
		_, err = w.set.Cache(reboot)
		require.NoError(t, err, "P12")
		require.Equal(t, [][]string{{"one"}}, w.notified())
	})
}

// TestWantedAgainDuringProbe: a kind that is dropped and wanted again while a probe hangs
// is probed again when that ends, and gets nothing from the old probe.
func TestWantedAgainDuringProbe(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.hanging.Insert(reboot.Group) })
		w.want("one", reboot)
		w.change(func() { w.hanging.Clear() })
		w.set.Want("one", nil)
		w.want("one", reboot)
		_, err := w.set.Cache(reboot)
		require.Equal(t, ErrPending, err)
		pass(probeTimeout)
		_, err = w.set.Cache(reboot)
		require.NoError(t, err, "P2")
		require.Equal(t, 1, w.requests("list", reboot))
	})
}

// TestAnyOrderOfCalls calls everything at once, for the race detector and for
// goroutines that are left.
func TestAnyOrderOfCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster(func(*Config) {})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var wg sync.WaitGroup
		wg.Go(func() { w.set.Run(ctx) })
		for _, owner := range []string{"one", "two", "three"} {
			wg.Go(func() {
				for i := range 100 {
					wants := sets.New[schema.GroupVersionKind]()
					if i%3 != 1 {
						wants.Insert(reboot)
					}
					if i%5 != 0 {
						wants.Insert(fence)
					}
					w.set.Want(owner, wants)
					time.Sleep(time.Duration(i) * time.Millisecond)
				}
			})
		}
		wg.Go(func() {
			for i := range 100 {
				w.mu.Lock()
				switch i % 4 {
				case 0:
					w.served.Delete(reboot)
				case 1:
					w.served.Insert(reboot)
				case 2:
					w.denied.Insert("list fencetemplates")
				case 3:
					w.denied.Clear()
				}
				w.mu.Unlock()
				w.set.Refresh(crdOf(reboot))
				w.set.Recheck(fence)
				_, _ = w.set.Mapping(fence)
				_, _ = w.value(reboot)
				w.set.StoreOf(resourceOf(reboot).GroupResource())
				w.set.Caches()
				time.Sleep(17 * time.Millisecond)
			}
		})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		for _, gvk := range []schema.GroupVersionKind{reboot, fence} {
			require.Equal(t, 1, w.running(gvk), "whatever happened, in the end there is one informer")
			_, err := w.set.Cache(gvk)
			require.NoError(t, err)
		}
		cancel()
		wg.Wait()
		require.Zero(t, w.running(reboot))
		require.Zero(t, w.running(fence))
	})
}

func TestForbiddenErrorNamesAll(t *testing.T) {
	t.Parallel()
	err := error(&ForbiddenError{Verb: "list", Resource: schema.GroupResource{Group: "g", Resource: "r"}})
	require.EqualError(t, err, "no permission to list r.g")
	_, ok := errors.AsType[*ForbiddenError](err)
	require.True(t, ok)
}
