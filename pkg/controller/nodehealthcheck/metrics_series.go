// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
)

// keepSeries is how long the series of a node are kept after its Node is gone (spec 20.1).
// expireInterval is how often expired series are removed.
const (
	keepSeries     = time.Hour
	expireInterval = time.Minute
)

// nodesSeen has, for each node with series of its own, when its Node was last seen.
type nodesSeen struct {
	sync.Mutex
	byName map[string]time.Time
}

// observeEnd takes a sample of the duration of a remediation.
func (m *metrics) observeEnd(cr listedCR, now time.Time) {
	m.unhealthyTime.WithLabelValues(cr.node, cr.Resource.Namespace, cr.Resource.Kind).Observe(max(0, now.Sub(cr.Started.Time).Seconds()))
	m.nodes.Lock()
	defer m.nodes.Unlock()
	m.nodes.byName[cr.node] = now
}

// expireSeries deletes the series of nodes that are gone.
func (m *metrics) expireSeries(exists func(node string) bool, now time.Time) {
	m.nodes.Lock()
	defer m.nodes.Unlock()
	for node, seen := range m.nodes.byName {
		switch {
		case exists(node):
			m.nodes.byName[node] = now
		case now.Sub(seen) >= keepSeries:
			delete(m.nodes.byName, node)
			m.unhealthyTime.DeletePartialMatch(prometheus.Labels{"name": node})
		}
	}
}

// expireSeries deletes the series of nodes that are gone until ctx is done.
func (c *Controller) expireSeries(ctx context.Context) {
	utilwait.UntilWithContext(ctx, func(context.Context) { c.metrics.expireSeries(c.nodeExists, c.Clock.Now()) }, expireInterval)
}

// nodeExists reports whether the cache has a Node.
func (c *Controller) nodeExists(name string) bool {
	return c.NodeCache.Get(name) != nil
}

// uncoveredNodes returns the number of nodes that no NodeHealthCheck selects.
func (c *Controller) uncoveredNodes() float64 {
	if !c.HasSynced() {
		return 0 // Not all NodeHealthChecks are known yet.
	}
	return float64(max(0, len(c.NodeCache.ListKeys())-c.index.Covered()))
}
