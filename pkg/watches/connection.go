// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

const (
	// lostAfter is how long a cache may go without an open watch before it counts as
	// unreadable.
	lostAfter = 30 * time.Second
	// openAfter is how long a watch has to be open to count. A shorter one is an error
	// of the API server in another form, and the cache needs a moment to take over what
	// was listed.
	openAfter = time.Second
	// listTimeout bounds one request of a list. By default the API server gives up on it
	// after one minute itself.
	listTimeout = 2 * time.Minute
)

var (
	// errSilent is the failure of an informer whose requests are not answered.
	errSilent = errors.New("the API server has not listed the objects yet")
	// errLost is the failure of a cache without an open watch, if there is no better one.
	errLost = errors.New("no watch is open")
	// errLagging is the failure of a cache that does not show our own write.
	errLagging = errors.New("the watch has not delivered what was written")
)

// connection follows the requests of one informer, and reports when no watch has been
// open for too long. The informer cannot: to it, a quiet watch is like one that fails.
type connection struct {
	// failed is called after each request that has failed, with whether it is the first
	// one since a watch was open. changed is called after lost has changed, at times after
	// the informer has ended.
	failed  func(err error, first bool)
	changed func(lost bool)

	mu sync.Mutex
	// failure is the last failure since a watch was open.
	failure error
	// open means that a watch is open and counts, lost that none was for too long.
	open, lost bool
	// opening runs while a watch is open that does not count yet, losing while none counts.
	opening, losing *time.Timer
}

// isLost reports whether no watch has been open for too long.
func (c *connection) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// cause returns why the cache does not follow the API server, or nil.
func (c *connection) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// expect starts the time within which a watch has to be open, unless one is or the time
// runs already.
func (c *connection) expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open && c.losing == nil {
		c.losing = time.AfterFunc(lostAfter, c.lose)
	}
}

func (c *connection) lose() {
	c.mu.Lock()
	if c.losing == nil { // A watch has been opened at the same moment.
		c.mu.Unlock()
		return
	}
	c.lost = true
	if c.failure == nil {
		c.failure = errLost
	}
	c.mu.Unlock()
	c.changed(true)
}

func (c *connection) opened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening = time.AfterFunc(openAfter, c.follow)
}

// follow makes an open watch count.
func (c *connection) follow() {
	c.mu.Lock()
	if c.opening == nil { // The watch has ended at the same moment.
		c.mu.Unlock()
		return
	}
	found := c.lost
	c.open, c.lost, c.failure = true, false, nil
	if c.losing != nil {
		c.losing.Stop()
		c.losing = nil
	}
	c.mu.Unlock()
	if found {
		c.changed(false)
	}
}

func (c *connection) closed() {
	c.mu.Lock()
	c.opening.Stop()
	c.opening, c.open = nil, false
	c.mu.Unlock()
	c.expect()
}

// listerWatcher lists before it watches: only then the end of the list is known.
type listerWatcher struct{ cache.ListWatch }

// IsWatchListSemanticsUnSupported keeps the informer from a watch that begins with a list.
func (*listerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

// listerWatcher returns what an informer lists and watches a resource with. No list is
// served from a cache of the API server that may lag.
func (c *connection) listerWatcher(resource dynamic.ResourceInterface) cache.ListerWatcher {
	return &listerWatcher{cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if options.ResourceVersion == "0" {
				options.ResourceVersion = ""
			}
			listing, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			list, err := resource.List(listing, options)
			c.report(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watcher, err := resource.Watch(ctx, options)
			c.report(ctx, err)
			if err != nil {
				return nil, err
			}
			c.opened()
			return &observedWatch{Interface: watcher, closed: sync.OnceFunc(c.closed)}, nil
		},
	}}
}

// report records how a request of an informer that goes on has ended.
func (c *connection) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		c.failed(err, c.fail(err))
	}
}

// observedWatch is a watch whose end is reported: the informer stops each watch, also
// one that the API server has ended.
type observedWatch struct {
	watch.Interface
	closed func()
}

// Stop implements watch.Interface.
func (w *observedWatch) Stop() {
	w.Interface.Stop()
	w.closed()
}
