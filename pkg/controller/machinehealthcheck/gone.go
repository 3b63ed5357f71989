// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// end deletes the CRs and leases that a deleted MachineHealthCheck has left, and forgets it (spec M3.5).
// Garbage collection would keep the CRs for as long as their Machines. The caches have to show all writes
// for it: otherwise end would miss CRs. It returns when to look again.
func (c *Controller) end(ctx context.Context, key cache.ObjectName) (recheck time.Time, err error) {
	c.Budgets.Forget(askerOf(key)) // It waits for nothing any more, even if its CRs are left.
	if c.Active() {
		failed := c.deleteOwnedCRs(ctx, key)
		recheck, err = c.endLeases(ctx, c.leasesHeldBy(key))
		if err := errors.Join(failed, err); err != nil {
			return time.Time{}, fmt.Errorf("ending the remediations of a MachineHealthCheck that is gone: %w", err)
		}
	}
	if left := c.wantKinds(key); len(left) > 0 {
		c.setDeletions(key, nil, nil, c.Clock.Now())
		c.metrics.forget(key)
		return recheck, nil // The CRs are about to go, or cannot be read. Both are watched.
	}
	c.forget(key)
	return recheck, nil
}

// endFormer deletes the CRs of a MachineHealthCheck that was deleted and created again before a sync.
// Garbage collection removes their references to it, and then nothing would show whose they are (spec M3.5).
func (c *Controller) endFormer(ctx context.Context, check *v1beta1.MachineHealthCheck) error {
	state, known := c.states.Load(keyOf(check))
	if !known || state.(*checkState).uid == check.UID {
		return nil
	}
	if err := c.deleteOwnedCRs(ctx, keyOf(check)); err != nil {
		return fmt.Errorf("ending the remediations of a former MachineHealthCheck of the same name: %w", err)
	}
	return nil
}

// deleteOwnedCRs deletes the CRs that a MachineHealthCheck owned at its last sync, or that have a reference to it.
func (c *Controller) deleteOwnedCRs(ctx context.Context, key cache.ObjectName) error {
	owned := c.ownedLast(key)
	var left []*object.CR
	for _, indexer := range c.remediations.Caches() {
		for _, obj := range indexer.List() {
			cr := obj.(*object.CR)
			if !cr.Deleting() && (owned.Has(cr.UID) || slices.Contains(ownersOf(cr), key)) {
				left = append(left, cr)
			}
		}
	}
	executor := execute.Executor{Client: c.Dynamic, Mapping: c.locate}
	return executor.DeleteLeft(ctx, left)
}

// forget drops everything about a MachineHealthCheck that is gone.
func (c *Controller) forget(key cache.ObjectName) {
	c.writes.Forget(key.String())
	c.states.Delete(key)
	c.setDeletions(key, nil, nil, c.Clock.Now())
	c.read.Delete(key)
	c.metrics.forget(key)
}
