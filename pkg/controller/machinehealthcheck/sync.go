// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// sync brings one MachineHealthCheck up to date. It returns the instant at which to look again even
// if nothing changes; zero means never.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (recheck time.Time, err error) {
	now := c.Clock.Now()
	err = c.CaughtUp(key.String())
	check := watches.Cached[*v1beta1.MachineHealthCheck](c.Checks.Store, key.String())
	switch {
	case err != nil:
		return time.Time{}, err
	case check == nil:
		return c.end(ctx, key)
	case !c.Active():
		c.Budgets.Forget(c.Asker(key.String())) // It waits for nothing.
		c.metrics.forget(key)                   // Another controller knows better.
		return time.Time{}, nil                 // What is running stays as it is, and nothing is written (spec M4.2).
	}
	c.metrics.initialize(key)
	if err := c.EndFormer(ctx, key, check.UID); err != nil {
		return time.Time{}, err
	}
	s, err := c.snapshot(ctx, check, now)
	if err != nil {
		return time.Time{}, c.reportUnobserved(ctx, check, err, now)
	}
	c.evaluate(s, now)
	plans := machinehealth.NewPlans(&s.policy, s.targets, now)
	c.limit(s, plans, now)
	c.noteVerdicts(s)
	s.reserved, s.budgetRevision = c.AskBudgets(check, pointers(plans), func(i int, withheld *remediation.Withholding) { s.policy.Withhold(&plans[i], withheld, now) })
	summary := &s.policy.Summary
	klog.FromContext(ctx).V(4).Info("Syncing", "expected", summary.Expected, "healthy", summary.Healthy, "limit", summary.Limit, "ignored", summary.Ignored, "targets", len(plans))
	for i := range plans {
		logPlan(ctx, &plans[i])
	}
	if err := c.announce(ctx, s, plans, nil); err != nil {
		c.EndReservations(check, s.reserved, nil)
		return time.Time{}, err
	}
	due, released := c.endLeases(ctx, s.needless, s.incomplete)
	results := c.act(ctx, s, plans)
	s.policy.CountRounds(results, now)
	if err := ctx.Err(); err != nil {
		return time.Time{}, fmt.Errorf("before the report: %w", err)
	}
	recheck, err = c.report(ctx, s, results, now)
	return health.Earliest(recheck, due), errors.Join(err, released) // Nothing else waits for the release of a lease.
}

// logPlan logs what was decided about a target.
func logPlan(ctx context.Context, plan *machinehealth.Plan) {
	logger := klog.FromContext(ctx).V(5)
	if !logger.Enabled() || (plan.Reason == "" && len(plan.Actions) == 0) {
		return
	}
	logger.Info("Planned", "machine", plan.Target.Machine.Name, "state", plan.Target.Verdict.State.String(), "trigger", plan.Target.Verdict.Trigger,
		"reason", plan.Reason, "actions", remediation.ActionNames(plan.Actions), "until", plan.Until)
}

// slotRecheck is how often a control plane Machine that waits for the slot is looked at again: an
// object of any kind may free the slot.
const slotRecheck = time.Second

// limit withholds the remediation of control plane Machines for which the caches show that the slot
// is taken.
func (c *Controller) limit(s *snapshot, plans []machinehealth.Plan, now time.Time) {
	for i := range plans {
		plan := &plans[i]
		if !takesSlot(plan) {
			continue
		}
		if taken := c.slotTaken(plan.Target.Machine, s.state.entries[plan.Target.Machine.Name]); taken != nil {
			s.policy.Withhold(plan, taken, now)
			plan.Recheck = health.Earliest(plan.Recheck, now.Add(slotRecheck))
		}
	}
}

// takesSlot reports whether a plan begins the remediation of a control plane Machine.
func takesSlot(plan *machinehealth.Plan) bool { return plan.Creates() && plan.Target.ControlPlane }
