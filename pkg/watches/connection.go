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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/utils/clock"
)

// listTimeout limits one request of a list. By default the API server itself gives up after one minute.
const listTimeout = 2 * time.Minute

var (
	// errSilent is the failure of an informer whose requests are not answered.
	errSilent = errors.New("the API server has not listed the objects yet")
	// errLost is the failure of a cache without an open watch, if no other failure is known.
	errLost = errors.New("no watch is open")
)

// connection follows the requests of one informer. It is stale once the objects were listed and no watch
// has been open for StaleAfter. An ordinary end of a watch, with a next watch, is no failure.
type connection struct {
	// failed is called after each failed request. Its argument tells whether it is the first failure since a
	// watch was open. changed is called after the connection has become stale, and after it has recovered.
	failed  func(err error, first bool)
	changed func()

	mu sync.Mutex
	// failure is the last failure since a watch was open.
	failure error
	listed  int64
	// failing is since when no watch is open, zero while one is, and before the first list.
	failing time.Time
	// stale means that no watch had been open for StaleAfter at the last look.
	stale bool
}

// isStale reports whether no watch has been open for too long.
func (c *connection) isStale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stale
}

// look finds out whether the connection is stale, and reports whether that has changed.
func (c *connection) look(now time.Time) (stale, turned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.stale
	c.stale = !c.failing.IsZero() && now.Sub(c.failing) >= StaleAfter
	return c.stale, c.stale != before
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

// fail records a failure and reports whether it is the first one since a watch was open.
func (c *connection) fail(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.failure == nil
	c.failure = err
	return first
}

// list records that all objects have been listed. From now on a watch is expected.
func (c *connection) list() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listed++; c.listed == 1 {
		c.failing = clock.RealClock{}.Now()
	}
}

// open records that a watch is open that continues what was listed.
func (c *connection) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing, c.failure = time.Time{}, nil
}

// close records that the watch has ended.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing.IsZero() && c.listed > 0 {
		c.failing = clock.RealClock{}.Now()
	}
}

// listerWatcher is the ListerWatcher of an informer.
type listerWatcher struct {
	cache.ListWatch

	client any
}

// IsWatchListSemanticsUnSupported reports whether a watch cannot begin with a list.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool {
	return l.client == nil || watchlist.DoesClientNotSupportWatchListSemantics(l.client)
}

// listerWatcher returns the ListerWatcher of an informer. Its lists do not come from a cache of the API
// server that may lag. If client supports it, the list comes as the beginning of a watch. A nil client does
// not.
func (c *connection) listerWatcher(source *cache.ListWatch, client any) cache.ListerWatcher {
	return &listerWatcher{client: client, ListWatch: cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if options.ResourceVersion == "0" {
				options.ResourceVersion = ""
			}
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
			watcher, err := source.WatchWithContext(ctx, options)
			if !lists || !apierrors.IsInvalid(err) { // Or else the API server cannot do that, and a list follows.
				c.report(ctx, err)
			}
			if err != nil {
				return nil, err
			}
			if lists {
				return c.observeList(watcher), nil
			}
			c.open()
			return &observedWatch{Interface: watcher, closed: sync.OnceFunc(c.close)}, nil
		},
	}}
}

// report records how a request of a running informer has ended.
func (c *connection) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		c.failed(err, c.fail(err))
	}
}

// observedWatch is a watch that reports its end: the informer stops each watch, also a
// watch that the API server has ended.
type observedWatch struct {
	watch.Interface

	closed func()
}

// Stop implements watch.Interface.
func (w *observedWatch) Stop() {
	w.Interface.Stop()
	w.closed()
}

// listingWatch is a watch that begins with a list. A bookmark ends the list.
type listingWatch struct {
	observedWatch

	events chan watch.Event
}

// ResultChan implements watch.Interface.
func (w *listingWatch) ResultChan() <-chan watch.Event { return w.events }

// observeList returns a watch that counts as open once its list is complete.
func (c *connection) observeList(watcher watch.Interface) watch.Interface {
	stopped := make(chan struct{})
	w := &listingWatch{events: make(chan watch.Event), observedWatch: observedWatch{Interface: watcher, closed: sync.OnceFunc(func() {
		close(stopped)
		c.close()
	})}}
	go func() {
		defer close(w.events)
		for event := range watcher.ResultChan() {
			if endsList(&event) {
				c.list()
				c.open()
			}
			select {
			case w.events <- event:
			case <-stopped:
				return
			}
		}
	}()
	return w
}

// endsList reports whether an event of a watch is the bookmark at the end of the list.
func endsList(event *watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
