// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/cache"
)

// end deletes the CRs and leases that a deleted MachineHealthCheck has left, and forgets it (spec M3.5).
// Garbage collection would keep the CRs for as long as their Machines. The caches have to show all writes
// for it: otherwise end would miss CRs. It returns when to look again.
func (c *Controller) end(ctx context.Context, key cache.ObjectName) (recheck time.Time, err error) {
	c.Budgets.Forget(c.Asker(key.String())) // It waits for nothing any more, even if its CRs are left.
	if c.Active() {
		failed := c.EndFormer(ctx, key, "")
		recheck, err = c.endLeases(ctx, c.LeasesOf(key.String()), false)
		if err := errors.Join(failed, err); err != nil {
			return time.Time{}, err
		}
	}
	c.wantKinds(key)
	if len(c.kindsOf(key)) > 0 {
		c.metrics.forget(key)
		return recheck, nil // The CRs are about to go, or cannot be read. Both are watched.
	}
	c.forget(key)
	return recheck, nil
}

// forget drops everything about a MachineHealthCheck that is gone.
func (c *Controller) forget(key cache.ObjectName) {
	c.Forget(key)
	c.states.Delete(key)
	c.read.Delete(key)
	c.metrics.forget(key)
}
