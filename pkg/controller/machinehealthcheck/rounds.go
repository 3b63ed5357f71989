// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// roundsInterval is the time between two looks for leases whose rounds are over. Rounds end by time alone, without an
// event, and perhaps no MachineHealthCheck selects a Machine of their owner any more (spec M14.4).
const roundsInterval = time.Second

// endRounds deletes the back-off leases whose rounds are long ago. After a failure, the next look tries
// again.
func (c *Controller) endRounds(ctx context.Context) {
	if c.DryRun || !c.Active() {
		return
	}
	ctx, end := c.active.during(ctx)
	defer end()
	var over []*coordinationv1.Lease
	for _, lease := range c.roundLeases() {
		if c.BackOff.Over(machinehealth.RoundsOf(lease), time.Time{}, c.Clock.Now()) {
			over = append(over, lease)
		}
	}
	if err := c.deleteLeases(ctx, over); err != nil {
		klog.FromContext(ctx).Error(err, "Deleting back-off leases failed, retrying")
	}
}

// roundLeases returns the leases that count rounds, by owner.
func (c *Controller) roundLeases() map[types.UID]*coordinationv1.Lease {
	rounds := map[types.UID]*coordinationv1.Lease{}
	for _, owner := range c.leases.ListIndexFuncValues(leasesOfRounds) {
		for _, lease := range watches.Indexed[*coordinationv1.Lease](c.leases, leasesOfRounds, owner) {
			rounds[types.UID(owner)] = lease
		}
	}
	return rounds
}
