// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// nodeSeries are the nodes with series of their own that outlive what they are about. The
// zero value is ready to use, from any goroutine.
type nodeSeries struct {
	mu sync.Mutex
	// missing is since when the Node of a node has been missing, zero while it is there.
	missing map[string]time.Time
}

// keepSeries is how long the series of a node are kept after its Node is gone (spec 20.1),
// and expireInterval how often that is looked at.
const (
	keepSeries     = time.Hour
	expireInterval = time.Minute
)

func (n *nodeSeries) add(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.missing == nil {
		n.missing = map[string]time.Time{}
	}
	if _, known := n.missing[node]; !known {
		n.missing[node] = time.Time{}
	}
}

// expired forgets and returns the nodes whose Nodes have been gone for long enough.
func (n *nodeSeries) expired(exists func(node string) bool, now time.Time) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var expired []string
	for node, since := range n.missing {
		switch {
		case exists(node):
			n.missing[node] = time.Time{}
		case since.IsZero():
			n.missing[node] = now
		case now.Sub(since) >= keepSeries:
			delete(n.missing, node)
			expired = append(expired, node)
		}
	}
	return expired
}

// expireSeries deletes the series of nodes that are gone.
func (m *metrics) expireSeries(exists func(node string) bool, now time.Time) {
	for _, node := range m.nodes.expired(exists, now) {
		m.unhealthyTime.DeletePartialMatch(prometheus.Labels{"name": node})
	}
}

// measure takes a sample of the duration of every sync, also of one that has failed, but
// not of the one that finds the NodeHealthCheck gone and removes its series.
func (c *Controller) measure(name string, begun time.Time) {
	if _, err := c.nhcs.Get(name); err == nil {
		c.metrics.syncDuration.WithLabelValues(name).Observe(max(0, c.clock.Since(begun).Seconds()))
	}
}

// nodeExists reports whether the cache has a Node.
func (c *Controller) nodeExists(name string) bool {
	return c.nodes.Get(name) != nil
}

// uncoveredNodes returns the number of nodes that no NodeHealthCheck selects.
func (c *Controller) uncoveredNodes() float64 {
	if !c.HasSynced() {
		return 0 // Not all NodeHealthChecks are known yet.
	}
	return float64(max(0, len(c.nodes.ListKeys())-c.index.Covered()))
}
