// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"iter"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// NodeCache is the cache of Nodes.
type NodeCache struct{ cache.Indexer }

// Get returns a Node, nil if there is none.
func (c NodeCache) Get(name string) *corev1.Node {
	return watches.Cached[*corev1.Node](c.Indexer, name)
}

// All yields all Nodes.
func (c NodeCache) All() iter.Seq[*corev1.Node] {
	return func(yield func(*corev1.Node) bool) {
		for _, object := range c.List() {
			if !yield(object.(*corev1.Node)) {
				return
			}
		}
	}
}

// HasControlPlane reports whether there is a Node, and it has a control plane label (spec 12.1).
func (c NodeCache) HasControlPlane(name string) bool {
	node := c.Get(name)
	return node != nil && remediation.IsControlPlane(node.Labels)
}

// LeaseIndexers index leases by the health check that holds them. The controllers share the cache, so the name of the
// index is that of their kind.
func (c *Checks) LeaseIndexers() cache.Indexers {
	return cache.Indexers{c.Kind: func(obj any) ([]string, error) {
		if lease, ok := obj.(*coordinationv1.Lease); ok {
			if key, held := c.OfHolder(remediation.LeaseHolder(lease)); held {
				return []string{key}, nil
			}
		}
		return nil, nil
	}}
}

// LeaseHolders returns the health checks that hold leases, also those that are gone.
func (s *Shell) LeaseHolders() []string { return s.LeaseCache.ListIndexFuncValues(s.Checks.Kind) }

// LeasesOf returns the leases that a health check holds.
func (s *Shell) LeasesOf(key string) []*coordinationv1.Lease {
	return watches.Indexed[*coordinationv1.Lease](s.LeaseCache, s.Checks.Kind, key)
}

// LeaseFor returns the lease of a node as the cache has it, nil if there is none.
func (s *Shell) LeaseFor(node string) *coordinationv1.Lease {
	return watches.Cached[*coordinationv1.Lease](s.LeaseCache, s.LeaseNamespace+"/"+object.LeaseName(node))
}
