// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// caughtUp returns the NodeHealthCheck of the cache, nil if there is none. Until all caches
// show the writes of its last sync, the error is a *staleness.Error.
func (c *Controller) caughtUp(name string) (*v1alpha1.NodeHealthCheck, error) {
	behind := c.writes.CaughtUp(name, c.storeOf, c.clock.Now())
	nhc, err := c.nhcs.Get(name) // After CaughtUp.
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading NodeHealthCheck %s: %w", name, err)
	}
	if err := c.staleCaches(); err != nil {
		return nil, err
	}
	return nhc, behind
}

// staleCaches returns why a cache that every sync depends on counts as not read: its watch has failed for too
// long. When the watch is back, all NodeHealthChecks are synced (spec 6.8, P5).
func (c *Controller) staleCaches() error {
	if err := c.freshness.Check(watches.NodeCache, watches.NodeHealthCheckCache, watches.LeaseCache); err != nil {
		return fmt.Errorf("reading what decisions depend on: %w", err)
	}
	return c.machineHealthChecks.Unread()
}
