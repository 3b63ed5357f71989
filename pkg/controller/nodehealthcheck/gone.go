// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// end forgets a NodeHealthCheck that is gone, and deletes the leases that it holds for nodes without a CR (spec 14.9).
// While a kind of CRs cannot be read, it leaves them until they run out.
func (c *Controller) end(ctx context.Context, name string) error {
	if err := c.EndFormer(ctx, cache.ObjectName{Name: name}, ""); err != nil {
		return err
	}
	held := c.LeasesOf(name)
	if len(held) > 0 {
		if err := c.Remediations.Ready(); err != nil {
			return err
		}
	}
	if len(held) > 0 && c.Remediations.AnyUnread() == nil {
		held = slices.DeleteFunc(held, func(lease *coordinationv1.Lease) bool {
			node, ok := object.NodeOfLease(lease)
			return !ok || c.hasCR(node)
		})
		klog.FromContext(ctx).Info("Releasing the leases of a NodeHealthCheck that is gone", "leases", len(held))
		if err := c.DeleteLeases(ctx, held); err != nil {
			return fmt.Errorf("releasing the leases of a NodeHealthCheck that is gone: %w", err)
		}
	}
	c.Forget(cache.ObjectName{Name: name})
	c.waiters.set(name, false)
	c.states.forget(name)
	c.metrics.series.Forget(name)
	return nil
}

// enqueueLeft adds the NodeHealthChecks that are gone and have left leases or CRs to the queue.
func (c *Controller) enqueueLeft() {
	names := c.LeaseHolders()
	for _, indexer := range c.Remediations.Caches() {
		names = append(names, indexer.ListIndexFuncValues(byOwner)...)
	}
	c.Wake(slices.DeleteFunc(names, c.index.Has))
}
