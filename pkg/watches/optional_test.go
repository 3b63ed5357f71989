// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func optional(c *Config) { c.Optional = true }

func TestOptionalKindIsNotServed(t *testing.T) {
	inClusterOf(t, optional, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.served.Delete(reboot) })
		w.want("one", reboot)
		_, err := w.set.Mapping(reboot)
		require.True(t, meta.IsNoMatchError(err), "1.3: %v", err)
		require.Equal(t, []string{"one"}, w.notifiedOwners())
		pass(time.Minute)
		w.change(func() { w.looks = 0 })
		pass(24 * time.Hour)
		require.Zero(t, w.looks, "P3: no request for what is not there")

		// It is installed while the controller runs. Discovery follows a little later.
		for _, delay := range []time.Duration{0, time.Second, 3 * time.Second} {
			w.notified()
			w.set.Refresh(reboot.Group)
			pass(delay)
			w.change(func() { w.served.Insert(reboot) })
			pass(5*time.Second - delay)
			require.Equal(t, 1, w.running(reboot), "1.3 6.4: within 5 s of the change of a CRD, which is served %s later", delay)
			require.Equal(t, []string{"one"}, w.notifiedOwners())

			w.change(func() { w.served.Delete(reboot) })
			w.set.Refresh(reboot.Group)
			pass(5 * time.Second)
			require.Zero(t, w.running(reboot), "1.3: it may vanish")
			_, err = w.set.Cache(reboot)
			require.True(t, meta.IsNoMatchError(err), "%v", err)
			pass(time.Minute)
		}
		w.change(func() { w.looks = 0 })
		pass(24 * time.Hour)
		require.Zero(t, w.looks, "P3")
	})
}

// A kind that is served and forbidden is polled for the permission, optional or not.
func TestOptionalKindIsForbidden(t *testing.T) {
	inClusterOf(t, optional, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.denied.Insert("list reboottemplates") })
		w.want("one", reboot)
		pass(time.Hour)
		_, err := w.set.Mapping(reboot)
		require.IsType(t, &ForbiddenError{}, err)
		w.change(func() { w.denied.Clear() })
		pass(interval)
		require.Equal(t, 1, w.running(reboot), "P12")
	})
}

// A discovery that fails is no answer for an optional kind either.
func TestOptionalKindInTrouble(t *testing.T) {
	inClusterOf(t, optional, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.discoveryErr[reboot.Group] = errServer })
		w.want("one", reboot)
		pass(time.Hour)
		_, err := w.set.Mapping(reboot)
		require.True(t, Unread(err), "P5")
		w.change(func() { clear(w.discoveryErr) })
		pass(interval)
		require.Equal(t, 1, w.running(reboot), "P12")
	})
}

// Whether an optional kind is gone is asked until there is an answer.
func TestOptionalKindMayBeGone(t *testing.T) {
	var defined atomic.Pointer[string]
	defined.Store(new("others.a.example.com"))
	inClusterOf(t, func(c *Config) {
		c.Optional, c.CRDs = true, func(string) ([]string, bool) { return []string{*defined.Load()}, true }
	}, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.served.Delete(reboot) })
		w.want("one", reboot)
		pass(time.Hour)
		require.False(t, w.set.Gone(reboot), "P5")
		defined.Store(new(resourceOf(global).GroupResource().String()))
		pass(interval)
		require.True(t, w.set.Gone(reboot), "P12")
		pass(time.Minute)
		w.change(func() { w.looks = 0 })
		pass(24 * time.Hour)
		require.Zero(t, w.looks, "P3")
	})
}

// Without a version, that which the API server prefers is watched.
func TestOptionalKindOfAnyVersion(t *testing.T) {
	anyVersion := schema.GroupVersionKind{Group: reboot.Group, Kind: reboot.Kind}
	inClusterOf(t, optional, func(t *testing.T, w *fakeCluster) {
		w.put(reboot, "1")
		w.want("one", anyVersion)
		mapping, err := w.set.Mapping(anyVersion)
		require.NoError(t, err)
		require.Equal(t, resourceOf(reboot), mapping.Resource)
		indexer, err := w.set.Cache(anyVersion)
		require.NoError(t, err)
		require.Len(t, indexer.List(), 1)
		w.want("one", schema.GroupVersionKind{Group: "nowhere.example.com", Kind: "X"})
		_, err = w.set.Mapping(schema.GroupVersionKind{Group: "nowhere.example.com", Kind: "X"})
		require.True(t, meta.IsNoMatchError(err), "%v", err)
	})
}

// TestForbiddenButReadable: reading is permitted, something else is not.
func TestForbiddenButReadable(t *testing.T) {
	needsMore := func(c *Config) { c.Verbs = []string{"get", "list", "watch", "create", "patch", "delete"} }
	inClusterOf(t, needsMore, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.denied.Insert("patch reboottemplates") })
		w.put(reboot, "1")
		w.want("one", reboot)
		pass(confirmAfter)
		mapping, err := w.set.Mapping(reboot)
		require.Equal(t, &ForbiddenError{Verb: "patch", Resource: resourceOf(reboot).GroupResource()}, err, "6.6")
		require.Equal(t, resourceOf(reboot), mapping.Resource)
		indexer, err := w.set.Cache(reboot)
		require.NoError(t, err, "6.7: as far as the CRs can be read")
		require.Len(t, indexer.List(), 1)
		pass(time.Minute)
		w.notified()
		pass(time.Hour)
		require.Empty(t, w.notified(), "P3")

		w.change(func() { w.denied.Clear() })
		pass(interval)
		_, err = w.set.Mapping(reboot)
		require.NoError(t, err, "6.4: within the poll")
		require.Equal(t, 1, w.requests("list", reboot), "the informer goes on")
		require.Equal(t, []string{"one"}, w.notifiedOwners())

		w.change(func() {
			w.denied.Insert("list reboottemplates")
			w.refused["watch reboottemplates"] = apierrors.NewForbidden(resourceOf(reboot).GroupResource(), "", nil)
		})
		w.breakWatches(reboot)
		pass(5 * time.Second)
		_, err = w.set.Cache(reboot)
		require.IsType(t, &ForbiddenError{}, err, "and stops when reading is not permitted any more")
	})
}
