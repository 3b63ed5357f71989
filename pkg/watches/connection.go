// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// StaleAfter is how long the watch of a cache may fail before the cache counts as not read.
const StaleAfter = 30 * time.Second

// settleAfter is the time between the opening of a watch that had failed for too long and the moment when its cache
// counts as read again. Meanwhile the watch delivers what the cache has missed.
const settleAfter = time.Second

// listTimeout limits one request of a list, as the API server does by default.
const listTimeout = time.Minute

// errLost is the failure of a cache without an open watch, if no other failure is known.
var errLost = errors.New("no watch is open")

// connection follows the requests of one informer. It is stale once the objects were listed and no watch has been open
// for StaleAfter. An ordinary end of a watch, with a next watch, is no failure.
type connection struct {
	// name is that of the cache.
	name string
	// failed is called after each failed request. Its argument says whether it is the first failure since a
	// watch was open. changed is called after the connection has become stale, and after it has recovered.
	failed  func(err error, first bool)
	changed func()

	mu sync.Mutex
	// failure is the last failure since a watch was open.
	failure error
	listed  int64
	// failing is since when a watch was asked for and none is open, zero while one is, and before the first list.
	failing time.Time
	stale   bool
}

// isStale reports whether no watch has been open for too long.
func (c *connection) isStale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stale
}

// lists returns how often the objects have been listed.
func (c *connection) lists() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listed
}

// cause returns why the cache does not follow the API server, or nil.
func (c *connection) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale && c.failure == nil {
		return errLost
	}
	return c.failure
}

// request records that a request begins. A watch that was open has ended.
func (c *connection) request(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing.IsZero() && c.listed > 0 {
		c.failing = clock.RealClock{}.Now()
		clock.RealClock{}.AfterFunc(StaleAfter, func() { c.look(ctx) })
	}
}

// report records how a request of a running informer has ended.
func (c *connection) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	first := c.failure == nil
	c.failure = err
	c.mu.Unlock()
	c.failed(err, first)
}

// list records that all objects have been listed.
func (c *connection) list() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed++
}

// open records that a watch is open that continues what was listed.
func (c *connection) open(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing, c.failure = time.Time{}, nil
	if c.stale {
		clock.RealClock{}.AfterFunc(settleAfter, func() { c.look(ctx) })
	}
}

// look finds out whether the connection is stale, and reports a change while the informer runs.
func (c *connection) look(ctx context.Context) {
	c.mu.Lock()
	before := c.stale
	c.stale = !c.failing.IsZero() && clock.RealClock{}.Since(c.failing) >= StaleAfter
	stale := c.stale
	c.mu.Unlock()
	switch {
	case stale == before || ctx.Err() != nil:
		return
	case stale:
		utilruntime.HandleErrorWithContext(ctx, c.cause(), "The watch of a cache has failed for too long: nothing that depends on the cache begins", "cache", c.name, "for", StaleAfter)
	default:
		klog.FromContext(ctx).Info("Watching again", "cache", c.name)
	}
	c.changed()
}

// listerWatcher returns the ListerWatcher of an informer. Its lists do not come from a cache of the API
// server that may lag. If client supports it, the list comes as the beginning of a watch.
func (c *connection) listerWatcher(source *cache.ListWatch, client any) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if options.ResourceVersion == "0" {
				options.ResourceVersion = ""
			}
			c.request(ctx)
			listing, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			list, err := source.ListWithContext(listing, options)
			c.report(ctx, err)
			if err != nil {
				return nil, err
			}
			if pages, err := meta.ListAccessor(list); err != nil || pages.GetContinue() == "" {
				c.list()
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			lists := options.SendInitialEvents != nil && *options.SendInitialEvents
			c.request(ctx)
			watcher, err := source.WatchWithContext(ctx, options)
			if !lists || !apierrors.IsInvalid(err) { // Or else the API server cannot do that, and a list follows.
				c.report(ctx, err)
			}
			if err != nil {
				return nil, err
			}
			if !lists {
				c.open(ctx)
				return watcher, nil
			}
			return listingWatch{watch.Filter(watcher, func(event watch.Event) (watch.Event, bool) {
				if endsList(&event) {
					c.list()
					c.open(ctx)
				}
				return event, true
			})}, nil
		},
	}, client)
}

// plainLists stands for a client whose watches do not begin with a list.
type plainLists struct{}

// IsWatchListSemanticsUnSupported reports that a watch cannot begin with a list.
func (plainLists) IsWatchListSemanticsUnSupported() bool { return true }

// listingWatch is a watch that begins with a list.
type listingWatch struct{ watch.Interface }

// Stop implements watch.Interface. The filter ends with its last event.
func (w listingWatch) Stop() {
	w.Interface.Stop()
	go func() {
		for range w.ResultChan() { // Nothing else reads them any more.
		}
	}()
}

// endsList reports whether an event of a watch is the bookmark at the end of the list.
func endsList(event *watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
