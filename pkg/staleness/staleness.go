// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package staleness reports whether the informer caches have caught up with our own
// writes, so that no sync decides on a state that it has already changed.
package staleness

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Error reports a cache that is behind one of our writes. It is no failure: the missing
// watch event arrives by itself.
type Error struct {
	Resource schema.GroupResource
	// Read is the resource version of the cache, Wrote that of the write.
	Read, Wrote string
	// Since is the time of the write.
	Since time.Time
}

func (e *Error) Error() string {
	return fmt.Sprintf("cache of %s is at %s, behind our write at %s", e.Resource, e.Read, e.Wrote)
}

// Patience is how long a sync waits for a cache to show an own write. After that it goes on with the cache: each
// write is bound to a name, a uid or a resource version, so the API server refuses a write of a stale sync.
const Patience = 30 * time.Second

// Tracker remembers the newest resource version written per owner and resource.
// The zero Tracker is ready to use, from any goroutine.
type Tracker struct {
	mu     sync.Mutex
	writes map[string]map[schema.GroupResource]write
}

// write is the newest write of a resource.
type write struct {
	version string
	at      time.Time
}

// Wrote records that a sync of owner has written resource at this version.
func (t *Tracker) Wrote(owner string, resource schema.GroupResource, version string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writes == nil {
		t.writes = map[string]map[schema.GroupResource]write{}
	}
	if t.writes[owner] == nil {
		t.writes[owner] = map[schema.GroupResource]write{}
	}
	if Newer(version, t.writes[owner][resource].version) {
		t.writes[owner][resource] = write{version: version, at: at}
	}
}

// check returns an *Error for each store that is behind the writes of owner, the latest
// write first. It forgets the writes if no store is behind. A resource without a store is no
// longer watched, or cannot be: there is nothing to wait for.
func (t *Tracker) check(owner string, storeOf func(schema.GroupResource) (cache.Store, bool)) []*Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var behind []*Error
	for resource, wrote := range t.writes[owner] {
		store, watched := storeOf(resource)
		if !watched {
			continue
		}
		if read := store.LastStoreSyncResourceVersion(); Newer(wrote.version, read) {
			behind = append(behind, &Error{Resource: resource, Read: read, Wrote: wrote.version, Since: wrote.at})
		}
	}
	if len(behind) == 0 {
		delete(t.writes, owner)
	}
	slices.SortFunc(behind, func(a, b *Error) int { return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Error(), b.Error())) })
	return behind
}

// CaughtUp returns an *Error until all stores show the writes of owner, or [Patience] is over. A sync has to
// read the stores after this call: an earlier reading may be older than the writes.
func (t *Tracker) CaughtUp(owner string, storeOf func(schema.GroupResource) (cache.Store, bool), now time.Time) error {
	behind := t.check(owner, storeOf)
	if len(behind) == 0 {
		return nil
	}
	if now.Sub(behind[0].Since) < Patience {
		return behind[0]
	}
	t.Forget(owner)
	return nil
}

// IsLast reports whether version is the newest one of resource that owner has written and
// that no cache has shown. An event at this version is that of our own write.
func (t *Tracker) IsLast(owner string, resource schema.GroupResource, version string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return version != "" && t.writes[owner][resource].version == version
}

// Forget drops the writes of owner.
func (t *Tracker) Forget(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.writes, owner)
}

// Behind reports whether a store is behind a write at version.
func Behind(store cache.Store, version string) bool {
	return Newer(version, store.LastStoreSyncResourceVersion())
}

// Newer reports whether version a is newer than b. It fails open: versions that cannot be compared never
// block a sync.
func Newer(a, b string) bool {
	if b == "" {
		return a != ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
