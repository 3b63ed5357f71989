// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package staleness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

type store struct {
	cache.Store

	version string
}

func (s store) LastStoreSyncResourceVersion() string { return s.version }

func TestTracker(t *testing.T) {
	t.Parallel()
	crs := schema.GroupResource{Group: "g", Resource: "crs"}
	others := schema.GroupResource{Group: "g", Resource: "others"}
	at := func(versions map[schema.GroupResource]string) func(schema.GroupResource) (cache.Store, bool) {
		return func(r schema.GroupResource) (cache.Store, bool) {
			v, ok := versions[r]
			return store{version: v}, ok
		}
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var tracker Tracker
	require.Empty(t, tracker.check("a", at(nil)), "nothing written")

	tracker.Wrote("a", crs, "100", now)
	tracker.Wrote("a", crs, "99", now.Add(time.Second))
	behind := tracker.check("a", at(map[schema.GroupResource]string{crs: "99"}))
	require.Equal(t, []*Error{{Resource: crs, Read: "99", Wrote: "100", Since: now}}, behind, "an older write does not replace a newer one")
	require.Empty(t, tracker.check("b", at(map[schema.GroupResource]string{crs: "1"})), "the writes of one owner do not hold up another")
	require.True(t, tracker.IsLast("a", crs, "100"))
	require.False(t, tracker.IsLast("a", crs, "101"))

	tracker.Wrote("a", others, "5", now.Add(time.Minute))
	require.Len(t, tracker.check("a", at(map[schema.GroupResource]string{crs: "100", others: "4"})), 1, "all resources must have caught up")
	behind = tracker.check("a", at(map[schema.GroupResource]string{crs: "99", others: "4"}))
	require.Len(t, behind, 2)
	require.Equal(t, others, behind[0].Resource, "the latest write first")
	require.Empty(t, tracker.check("a", at(map[schema.GroupResource]string{crs: "1000"})), "a kind that is watched no longer is not waited for")

	tracker.Wrote("a", crs, "7", now)
	require.Len(t, tracker.check("a", at(map[schema.GroupResource]string{crs: ""})), 1, "an empty cache has seen nothing")
	tracker.Forget("a")
	require.Empty(t, tracker.check("a", at(map[schema.GroupResource]string{crs: ""})))

	tracker.Wrote("a", crs, "not a number", now)
	require.Empty(t, tracker.check("a", at(map[schema.GroupResource]string{crs: "8"})), "versions that cannot be compared do not block")
}

func TestPatience(t *testing.T) {
	t.Parallel()
	leases := schema.GroupResource{Resource: "leases"}
	behind := func(schema.GroupResource) (cache.Store, bool) { return store{version: "1"}, true }
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var tracker Tracker
	require.NoError(t, tracker.CaughtUp("a", behind, now))
	tracker.Wrote("a", leases, "2", now)
	require.Error(t, tracker.CaughtUp("a", behind, now.Add(Patience-1)))
	require.NoError(t, tracker.CaughtUp("a", behind, now.Add(Patience)), "a watch that never delivers holds up nothing for ever")
	require.False(t, tracker.IsLast("a", leases, "2"), "a later event is one of others")
}
