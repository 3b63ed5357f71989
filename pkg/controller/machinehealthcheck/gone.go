// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
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
		failed := c.endFormer(ctx, key, nil)
		recheck, err = c.endLeases(ctx, c.leasesHeldBy(key), false)
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

// endFormer deletes the CRs that a former MachineHealthCheck has left: it is gone (check is nil), or was created again
// (spec M3.5).
func (c *Controller) endFormer(ctx context.Context, key cache.ObjectName, check *v1beta1.MachineHealthCheck) error {
	former := execute.Former{
		Present: object.Owner{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: v1beta1.Kind, Namespace: key.Namespace, Name: key.Name},
		Checks:  v1beta1.SchemeGroupVersion.WithResource(v1beta1.Plural), CRs: c.Remediations.Caches(),
	}
	if check != nil {
		former.Present.UID = check.UID
	}
	if state, known := c.states.Load(key); known && state.(*checkState).uid != former.Present.UID {
		former.Remembered = c.ownedLast(key)
	}
	executor := execute.Executor{Client: c.Dynamic, Mapping: c.locate}
	if err := executor.EndFormer(ctx, &former); err != nil {
		return fmt.Errorf("ending the remediations of a former MachineHealthCheck: %w", err)
	}
	return nil
}

// forget drops everything about a MachineHealthCheck that is gone.
func (c *Controller) forget(key cache.ObjectName) {
	c.writes.Forget(key.String())
	c.states.Delete(key)
	c.setDeletions(key, nil, nil, c.Clock.Now())
	c.read.Delete(key)
	c.metrics.forget(key)
}
