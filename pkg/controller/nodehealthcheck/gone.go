// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// remember remembers the own CRs as long as the caches show them: garbage collection takes their reference to a
// NodeHealthCheck that is gone away (spec 4.8), perhaps before the cache shows that it is.
func (m *nhcState) remember(nhc *v1alpha1.NodeHealthCheck, own map[string][]*object.CR, caches map[schema.GroupKind]cache.Indexer) {
	m.orphans = slices.Contains(nhc.Finalizers, metav1.FinalizerOrphanDependents)
	maps.DeleteFunc(m.own, func(uid types.UID, cr *object.CR) bool {
		indexer := caches[cr.GroupVersionKind().GroupKind()]
		if indexer == nil {
			return true
		}
		cached := watches.Cached[*object.CR](indexer, cache.NewObjectName(cr.Namespace, cr.Name).String())
		return cached == nil || cached.UID != uid
	})
	for _, crs := range own {
		for _, cr := range crs {
			m.own[cr.UID] = cr
		}
	}
}

// rememberNew remembers the CR that was created, if one was.
func (m *nhcState) rememberNew(outcome *remediation.Outcome) {
	if cr := outcome.NewCR(); cr != nil {
		m.own[cr.UID] = cr
	}
}

// endFormer deletes the CRs that a former NodeHealthCheck has left: it is gone (uid is empty), or was created again.
func (c *Controller) endFormer(ctx context.Context, name string, uid types.UID) error {
	var remembered sets.Set[types.UID]
	if state := c.states.known(name); state != nil && state.uid != uid {
		if state.orphans {
			return nil
		}
		remembered = sets.KeySet(state.own)
	}
	return c.EndFormer(ctx, cache.ObjectName{Name: name}, uid, c.Remediations.Caches(), remembered)
}

// end forgets a NodeHealthCheck that is gone, and deletes the leases that it holds for nodes without a CR (spec 14.9).
// While a kind of CRs cannot be read, it leaves them until they run out.
func (c *Controller) end(ctx context.Context, name string) error {
	if err := c.endFormer(ctx, name, ""); err != nil {
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
	c.Writes.Forget(name)
	c.Budgets.Forget(c.Asker(name))
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
