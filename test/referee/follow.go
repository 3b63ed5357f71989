// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// follower follows all objects of a resource. It misses nothing as long as the API server
// can continue from its resourceVersion. Otherwise it reports a gap.
type follower struct {
	resource  schema.GroupVersionResource
	namespace string
	client    dynamic.ResourceInterface
	// sink takes the changes, in order.
	sink func(rules.Change)

	mu     sync.Mutex
	state  map[string]reportedVersion
	listed bool
	// last is how far the watch has come, and existed when all objects of state were there for certain.
	last, existed uint64
}

// reportedVersion is the version of an object that a follower has reported last.
type reportedVersion struct {
	uid     types.UID
	version uint64
}

// retryInterval is how long a follower waits before it tries again.
const retryInterval = 50 * time.Millisecond

// run follows until ctx is done.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.list(ctx); err == nil {
			f.watch(ctx)
		}
		pause(ctx, retryInterval)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// list reports everything that is not as it was when the last watch ended.
func (f *follower) list(ctx context.Context) error {
	list, err := f.client.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // The kind is not installed: there are no objects.
		list, err = &unstructured.UnstructuredList{}, nil
		list.SetResourceVersion(strconv.FormatUint(f.position(), 10))
	}
	if err != nil {
		return err
	}
	rv, err := parseVersion(list.GetResourceVersion())
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var now time.Time
	if f.listed {
		now = time.Now()
	}
	state := map[string]reportedVersion{}
	var changes []rules.Change
	for i := range list.Items {
		object := &list.Items[i]
		key := rules.KeyOf(object)
		version, err := parseVersion(object.GetResourceVersion())
		if err != nil {
			return err
		}
		state[key] = reportedVersion{object.GetUID(), version}
		if f.state[key].version < version {
			changes = append(changes, rules.Change{Resource: f.resource, Key: key, ResourceVersion: version, Time: now, Object: object, Gap: f.listed})
		}
	}
	// What is not there any more may have gone as soon as nothing was known of it, and is seen to be gone only now.
	gone := max(f.last, f.existed) + 1
	for key, before := range f.state {
		if state[key].uid != before.uid {
			f.sink(rules.Change{Resource: f.resource, Key: key, ResourceVersion: gone, Time: now, Gap: true})
		}
	}
	for _, change := range changes {
		f.sink(change)
	}
	f.state, f.last, f.listed = state, rv, true
	return nil
}

func (f *follower) position() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// watch watches from where it was, again and again, until that is not possible.
func (f *follower) watch(ctx context.Context) {
	for ctx.Err() == nil {
		options := metav1.ListOptions{ResourceVersion: strconv.FormatUint(f.position(), 10), AllowWatchBookmarks: true}
		watcher, err := f.client.Watch(ctx, options)
		switch {
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsNotFound(err):
			return
		case err != nil:
			pause(ctx, retryInterval)
			continue
		}
		lost := f.drain(ctx, watcher)
		watcher.Stop()
		if lost {
			return
		}
	}
}

// drain takes the events of a watch. It returns true if they cannot be continued.
func (f *follower) drain(ctx context.Context, watcher watch.Interface) (lost bool) {
	for {
		select {
		case <-ctx.Done():
			return true
		case event, open := <-watcher.ResultChan():
			if !open {
				return false
			}
			object, ok := event.Object.(*unstructured.Unstructured)
			if event.Type == watch.Error || !ok {
				return true // The list shows what was missed.
			}
			if err := f.take(event.Type, object); err != nil {
				return true
			}
		}
	}
}

func (f *follower) take(eventType watch.EventType, object *unstructured.Unstructured) error {
	rv, err := parseVersion(object.GetResourceVersion())
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last, rv)
	if eventType == watch.Bookmark {
		return nil
	}
	c := rules.Change{Resource: f.resource, Key: rules.KeyOf(object), ResourceVersion: rv, Time: time.Now(), Object: object}
	if eventType == watch.Deleted {
		c.Object = nil
		delete(f.state, c.Key)
	} else {
		f.state[c.Key] = reportedVersion{object.GetUID(), rv}
	}
	f.sink(c)
	return nil
}

// caughtUp reports whether all changes up to those that a list shows have been reported. Version is that of the list.
func (f *follower) caughtUp(listed map[string]uint64, version uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.listed {
		return false
	}
	for key, rv := range listed {
		if f.state[key].version < rv && f.last < rv {
			return false
		}
	}
	for key, last := range f.state {
		if _, exists := listed[key]; !exists && last.version <= version {
			return false
		}
	}
	f.existed = max(f.existed, version)
	return true
}

func parseVersion(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading a resource version: %w", err)
	}
	return rv, nil
}
