// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// sync brings one NodeHealthCheck up to date. It returns the instant at which to
// look again even if nothing changes; zero means never.
func (c *Controller) sync(ctx context.Context, name string) (recheck time.Time, err error) {
	start := c.clock.Now()
	defer c.measure(name, start)
	nhc, err := c.nhcs.Get(name)
	if apierrors.IsNotFound(err) {
		c.forget(name)
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading NodeHealthCheck %s: %w", name, err)
	}
	if nhc, err = c.caughtUp(ctx, nhc); err != nil {
		return time.Time{}, err
	}
	c.showRetries(nhc)
	memory := c.memories.of(nhc)
	c.metrics.initialize(nhc)

	world, err := c.observe(nhc, memory, start)
	if err != nil {
		return time.Time{}, err
	}
	c.takePlace(ctx, nhc, world, start)
	plans := world.plan(nhc, start)
	logSync(ctx, world, plans)
	outcomes := c.act(ctx, nhc, world, memory, plans)
	c.settlePlace(name, plans, outcomes, c.clock.Now())
	c.metrics.countCreations(name, plans, outcomes)
	if outdated(outcomes) {
		c.announcer.announce(nhc, removals(world, plans, outcomes))
		return time.Time{}, errOutdated
	}
	world.settle(nhc, plans, outcomes, start)
	recheck = health.Earliest(world.recheck(plans, start), c.retries.next(name, plans, start))
	recheck = health.Earliest(recheck, c.await(name, plans, outcomes))
	ledger, ended := memory.ledger.Update(world.observations(plans, outcomes, start), start)
	recheck = health.Earliest(recheck, ledger.Recheck(start))
	entries := newEntries(nhc, world, plans, outcomes, ledger, memory.decisions, start)
	memory.healthy = world.seesHealthy(entries)
	status := newStatus(nhc, world, entries, ledger, start)
	done := &round{
		nhc: nhc, world: world, plans: plans, outcomes: outcomes, ledger: ledger, ended: ended,
		entries: entries, decisions: decisionsIn(entries), status: status, now: start,
	}
	if until := done.deferStatus(memory.lastWrite); !until.IsZero() {
		c.announcer.announce(nhc, removals(world, plans, outcomes))
		klog.FromContext(ctx).V(4).Info("Status waits, there is more to do", "until", until)
		return health.Earliest(recheck, until), nil
	}
	if err := c.report(ctx, done, memory); err != nil {
		return time.Time{}, err
	}
	return recheck, nil
}

// forget drops all that is remembered about a NodeHealthCheck that is gone.
func (c *Controller) forget(name string) {
	c.writes.Forget(name)
	c.liveLeases.Delete(name)
	c.waiting.forget(name)
	c.retries.forget(name)
	c.metrics.forget(name, c.memories.forget(name))
}
