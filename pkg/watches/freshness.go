// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"fmt"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"
)

// Freshness knows which caches follow the API server. An informer cannot tell a quiet watch from a failing
// one. Its methods may be called from any goroutine.
type Freshness struct {
	mu          sync.Mutex
	connections map[string]*connection
	changed     []func()
}

// NewFreshness returns a Freshness without caches.
func NewFreshness() *Freshness { return &Freshness{connections: map[string]*connection{}} }

// Subscribe registers a function that is called after a cache has become stale, and after it has recovered. Call
// Subscribe before the informers run.
func (f *Freshness) Subscribe(changed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = append(f.changed, changed)
}

// Check returns an error if the watch of one of these caches has failed for StaleAfter, so that the cache
// counts as not read. The error is an UnreadableError. Subscribers are called when the cache recovers.
func (f *Freshness) Check(names ...string) error {
	for _, name := range names {
		if c := f.connection(name); c != nil && c.isStale() {
			return &UnreadableError{fmt.Errorf("the watch of %s has failed for more than %s: %w", name, StaleAfter, c.cause())}
		}
	}
	return nil
}

// Lists returns how often the objects of a cache have been listed: between two lists, the watch has shown
// every version of every object.
func (f *Freshness) Lists(name string) int64 {
	if c := f.connection(name); c != nil {
		return c.lists()
	}
	return 0
}

// Cause returns the last failure of a cache since a watch of it was open, nil if there was none.
func (f *Freshness) Cause(name string) error {
	if c := f.connection(name); c != nil {
		return c.cause()
	}
	return nil
}

func (f *Freshness) connection(name string) *connection {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.connections[name]
}

// follow follows the requests of an informer, under the name of its cache. It returns the ListerWatcher
// for the informer.
func (f *Freshness) follow(name string, c *connection, source *cache.ListWatch, client any) cache.ListerWatcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connections[name], c.name = c, name
	changed := c.changed
	c.changed = func() {
		changed()
		for _, call := range f.subscribers() {
			call()
		}
	}
	return c.listerWatcher(source, client)
}

func (f *Freshness) subscribers() []func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// forget ends the following of an informer.
func (f *Freshness) forget(name string, c *connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connections[name] == c { // Or another informer has taken its place.
		delete(f.connections, name)
	}
}

var watchFailing = prometheus.NewDesc("nhc_watch_failing",
	"Whether the watch of a cache has failed for so long that nothing which depends on the cache begins.", []string{"cache"}, nil)

// Describe implements prometheus.Collector.
func (*Freshness) Describe(descs chan<- *prometheus.Desc) { descs <- watchFailing }

// Collect implements prometheus.Collector.
func (f *Freshness) Collect(metrics chan<- prometheus.Metric) {
	f.mu.Lock()
	connections := maps.Clone(f.connections)
	f.mu.Unlock()
	for name, c := range connections {
		value := 0.0
		if c.isStale() {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(watchFailing, prometheus.GaugeValue, value, name)
	}
}
