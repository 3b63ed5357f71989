// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// sync brings one NodeHealthCheck up to date. It returns the instant at which to
// look again even if nothing changes; zero means never.
func (c *Controller) sync(ctx context.Context, name string) (recheck time.Time, err error) {
	now := c.Clock.Now()
	c.waiters.set(name, true) // Before the snapshot: the queue keeps what changes meanwhile.
	nhc, err := c.caughtUp(name)
	if err != nil {
		return time.Time{}, err
	}
	if nhc == nil {
		return time.Time{}, c.end(ctx, name)
	}
	if err := c.EndFormer(ctx, cache.ObjectName{Name: name}, nhc.UID); err != nil {
		return time.Time{}, err
	}
	snapshot, err := c.snapshot(nhc, now)
	if err != nil {
		return time.Time{}, err
	}
	c.initializeMetrics(snapshot)
	evaluated := evaluate(snapshot, now) // Completes snapshot.nodes.
	plans := remediation.NewPlans(&evaluated.Policy, snapshot.nodes, now)
	snapshot.controlPlane.Limit(&evaluated.Policy, plans, now) // Changes plans.
	pointers := remediation.Pointers(plans)
	snapshot.reserved, snapshot.budgetRevision = c.AskBudgets(nhc, pointers, func(i int, withheld *remediation.Withholding) {
		evaluated.Policy.Withhold(&plans[i], withheld, now)
	})
	logSync(ctx, snapshot, evaluated, plans)
	results := c.act(ctx, snapshot, &evaluated.Policy, pointers) // Creates and deletes CRs.
	return c.report(ctx, snapshot, evaluated, results, now)
}

// caughtUp returns the NodeHealthCheck of the cache, nil if there is none, once the caches show what the sync depends on.
func (c *Controller) caughtUp(name string) (*v1alpha1.NodeHealthCheck, error) {
	if err := c.CaughtUp(name); err != nil {
		return nil, err
	}
	return watches.Cached[*v1alpha1.NodeHealthCheck](c.Checks.Store, name), c.machineHealthChecks.Unread()
}
