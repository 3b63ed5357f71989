// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// end deletes the CRs and leases that a deleted MachineHealthCheck has left, and forgets it (spec M3.5).
// Garbage collection would keep the CRs for as long as their Machines. The caches have to show all writes
// for it: otherwise end would miss CRs. It returns when to look again.
func (c *Controller) end(ctx context.Context, key cache.ObjectName) (recheck time.Time, err error) {
	c.Budgets.Forget(c.Asker(key.String())) // It waits for nothing any more, even if its CRs are left.
	if c.Active() {
		failed := c.endFormer(ctx, key, "")
		recheck, err = c.endLeases(ctx, c.LeasesOf(key.String()), false)
		if err := errors.Join(failed, err); err != nil {
			return time.Time{}, err
		}
	}
	c.wantKinds(key)
	if len(c.kindsOf(key)) > 0 {
		c.setDeletions(key, nil, nil, c.Clock.Now())
		c.metrics.forget(key)
		return recheck, nil // The CRs are about to go, or cannot be read. Both are watched.
	}
	c.forget(key)
	return recheck, nil
}

// endFormer deletes the CRs that a former MachineHealthCheck has left: it is gone (uid is empty), or was created again
// (spec M3.5).
func (c *Controller) endFormer(ctx context.Context, key cache.ObjectName, uid types.UID) error {
	var remembered sets.Set[types.UID]
	if state, known := c.states.Load(key); known && state.(*checkState).uid != uid {
		remembered = c.ownedLast(key)
	}
	return c.EndFormer(ctx, key, uid, c.Remediations.Caches(), remembered)
}

// forget drops everything about a MachineHealthCheck that is gone.
func (c *Controller) forget(key cache.ObjectName) {
	c.Writes.Forget(key.String())
	c.states.Delete(key)
	c.setDeletions(key, nil, nil, c.Clock.Now())
	c.read.Delete(key)
	c.metrics.forget(key)
}
