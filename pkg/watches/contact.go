// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
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
)

// errLost is the failure of a cache without an open watch, if the API server gives no
// better one.
var errLost = errors.New("no watch is open")

// contact follows the requests of one informer, and reports when no watch has been open
// for too long. A quiet watch that is open is as good as a busy one, which the informer
// itself cannot tell from one that fails.
type contact struct {
	// changed is called after lost has changed, at times after the informer has ended.
	changed func(lost bool)

	mu    sync.Mutex
	open  int
	timer *time.Timer
	lost  bool
}

// isLost reports whether no watch has been open for too long since the first list.
func (c *contact) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// listed starts the time in which a watch has to be open. Before the first list there is
// no cache that could be lost.
func (c *contact) listed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expect()
}

// expect starts the timer, unless it runs or is not needed. c.mu must be held.
func (c *contact) expect() {
	if c.open == 0 && !c.lost && c.timer == nil {
		c.timer = time.AfterFunc(lostAfter, c.lose)
	}
}

func (c *contact) lose() {
	c.mu.Lock()
	c.timer = nil
	lost := c.open == 0 && !c.lost
	c.lost = c.lost || lost
	c.mu.Unlock()
	if lost {
		c.changed(true)
	}
}

func (c *contact) opened() {
	c.mu.Lock()
	found := c.lost
	c.open++
	c.lost = false
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.mu.Unlock()
	if found {
		c.changed(false)
	}
}

func (c *contact) closed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.expect()
}

// listerWatcher returns what an informer lists and watches a resource with. With
// consistent, its first list is not served from a cache of the API server, which may lag.
func (c *contact) listerWatcher(client dynamic.Interface, resource dynamic.ResourceInterface, consistent bool) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if consistent && options.ResourceVersion == "0" {
				options.ResourceVersion = ""
			}
			list, err := resource.List(ctx, options)
			if err == nil {
				c.listed()
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watcher, err := resource.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			return c.observe(watcher, options.SendInitialEvents != nil && *options.SendInitialEvents), nil
		},
	}, client)
}

// observedWatch is a watch whose opening and end are reported to a contact.
type observedWatch struct {
	watch.Interface
	contact *contact
	result  chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

// observe returns the watch, observed. One that begins with a list counts from the end
// of that list.
func (c *contact) observe(watcher watch.Interface, lists bool) watch.Interface {
	w := &observedWatch{Interface: watcher, contact: c, result: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run(lists)
	return w
}

func (w *observedWatch) ResultChan() <-chan watch.Event { return w.result }

func (w *observedWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.Interface.Stop()
}

// run passes on the events until the watch ends.
func (w *observedWatch) run(lists bool) {
	defer close(w.result)
	var timer <-chan time.Time
	if !lists {
		timer = time.After(openAfter)
	}
	for {
		select {
		case <-w.stopped:
			return
		case <-timer:
			w.contact.opened()
			defer w.contact.closed()
			timer = nil
		case event, open := <-w.Interface.ResultChan():
			if !open {
				return
			}
			if lists && endsList(event) {
				lists = false
				w.contact.listed()
				timer = time.After(openAfter)
			}
			select {
			case w.result <- event:
			case <-w.stopped:
				return
			}
		}
	}
}

// endsList reports whether an event is the bookmark after the objects that a watch began
// with.
func endsList(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
