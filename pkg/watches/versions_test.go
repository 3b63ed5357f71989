// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// TestVersionsOfAKind: all versions of a kind are the same objects. They are read once, in the version that the API
// server prefers (spec 6.8).
func TestVersionsOfAKind(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		kinds := NewSet[schema.GroupKind](w.config)
		var running sync.WaitGroup
		defer running.Wait()
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		defer cancel()
		running.Go(func() { kinds.Run(ctx) })
		kind := reboot.GroupKind()

		w.change(func() { w.served.Insert(newReboot) })
		kinds.Want("one", sets.New(kind))
		pass(time.Second)
		mapping, err := kinds.Mapping(kind)
		require.NoError(t, err)
		require.Equal(t, resourceOf(newReboot), mapping.Resource, "the version that the API server prefers")
		require.Equal(t, []int{0, 1}, []int{w.requests("list", reboot), w.requests("list", newReboot)}, "read once")
		for _, gvk := range []schema.GroupVersionKind{reboot, newReboot} {
			mapping, err = kinds.MappingIn(kind, gvk.Version)
			require.NoError(t, err)
			require.Equal(t, resourceOf(gvk), mapping.Resource)
			require.Equal(t, gvk, mapping.GroupVersionKind)
		}
		_, err = kinds.MappingIn(kind, "v3")
		require.True(t, meta.IsNoMatchError(err), "%v", err)
		_, err = kinds.MappingIn(fence.GroupKind(), "v1")
		require.Equal(t, ErrPending, err, "not wanted")

		w.change(func() { w.served.Delete(newReboot) })
		kinds.Refresh(crdOf(reboot))
		pass(time.Second)
		mapping, err = kinds.Mapping(kind)
		require.NoError(t, err)
		require.Equal(t, resourceOf(reboot), mapping.Resource, "the version that is left")
		_, err = kinds.Cache(kind)
		require.NoError(t, err, "P12")
		_, err = kinds.MappingIn(kind, newReboot.Version)
		require.EqualError(t, err, `no matches for kind "RebootTemplate" in version "a.example.com/v2"`)

		// The version that is not preferred goes, and discovery names it for a moment: the watch goes on.
		w.change(func() { w.served.Insert(newReboot) })
		kinds.Refresh(crdOf(reboot))
		pass(time.Second)
		w.notified()
		kinds.Refresh(crdOf(reboot))
		synctest.Wait()
		w.change(func() { w.served.Delete(reboot) })
		pass(refreshAgain)
		_, err = kinds.MappingIn(kind, reboot.Version)
		require.True(t, meta.IsNoMatchError(err), "%v", err)
		require.NotEmpty(t, w.notified(), "its owners are told")
		w.change(func() { w.served.Insert(reboot); w.served.Delete(newReboot) })
		kinds.Refresh(crdOf(reboot))
		pass(time.Second)

		w.change(func() { w.served.Delete(reboot) })
		kinds.Refresh(crdOf(reboot))
		synctest.Wait()
		_, err = kinds.MappingIn(kind, reboot.Version)
		require.EqualError(t, err, `no matches for kind "RebootTemplate" in version "a.example.com/v1"`)
	})
}

// TestAnyVersion: without a version, that which the API server prefers is watched.
func TestAnyVersion(t *testing.T) {
	anyVersion := schema.GroupVersionKind{Group: reboot.Group, Kind: reboot.Kind}
	inCluster(t, func(t *testing.T, w *fakeCluster) {
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
