// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediationbudget

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
)

// evaluate wakes those that need wait no longer, and queues the budgets whose status has changed.
// It returns how long nothing changes without an event, zero if that is for ever.
func (c *Controller) evaluate() (next time.Duration) {
	now := c.Clock.Now()
	c.changesMu.Lock()
	c.evaluated = now
	c.changesMu.Unlock()
	indexer, err := c.kinds.Cache(kind)
	if err != nil {
		return 0 // There are none, or readabilityChanged follows.
	}
	c.mu.Lock()
	c.observe()
	c.counts.Expire(now)
	woken := c.counts.Woken(now)
	for _, obj := range indexer.List() {
		stored := &obj.(*parsed).RemediationBudget
		status := c.counts.Status(stored.Name, &stored.Status, now)
		c.metrics.update(stored.Name, status, c.counts.WaitingNodes(stored.Name))
		if key := (cache.ObjectName{Name: stored.Name}); status != &stored.Status && c.queue.NumRequeues(key) == 0 {
			c.queue.Add(key) // One that has failed comes by itself.
		}
	}
	waiting, change := c.counts.Waiting(), c.counts.NextChange(now)
	c.mu.Unlock()
	c.wake(woken)
	switch {
	case waiting:
		return evaluateInterval
	case change.IsZero():
		return 0
	default:
		return max(evaluateInterval, change.Sub(now))
	}
}

// wake syncs health checks.
func (c *Controller) wake(claimants []budget.Claimant) {
	byKind := map[string][]string{}
	for _, claimant := range claimants {
		byKind[claimant.Kind] = append(byKind[claimant.Kind], claimant.Name)
	}
	for kind, names := range byKind {
		if checks := c.healthChecks[kind]; checks != nil {
			checks.Wake(names)
		}
	}
}

// writeStatus replaces the status of a budget, if it has changed, and then reports the transitions.
func (c *Controller) writeStatus(ctx context.Context, name string) error {
	indexer, err := c.kinds.Cache(kind)
	if err != nil {
		return nil //nolint:nilerr // When it can be read again, everything is evaluated.
	}
	obj, exists, err := indexer.GetByKey(name)
	if err != nil || !exists || obj.(*parsed).problem != "" {
		return err
	}
	now := c.Clock.Now()
	if behind := c.writes.Check(name, c.storeOf); len(behind) > 0 {
		if c.Clock.Since(behind[0].Since) < staleMax {
			return behind[0]
		}
		c.writes.Forget(name)
	}
	updated := obj.(*parsed).RemediationBudget
	before := &obj.(*parsed).Status
	c.mu.Lock()
	status := c.counts.Status(name, before, now)
	c.mu.Unlock()
	if status == before {
		return nil
	}
	updated.Status = *status
	written, err := c.Client.RemediationBudgets().UpdateStatus(ctx, &updated, metav1.UpdateOptions{FieldManager: execute.FieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("updating status: %w", err)
	}
	c.writes.Wrote(name, budgetResource, written.ResourceVersion, now)
	regarding := &corev1.ObjectReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.BudgetKind, Name: name, UID: updated.UID}
	for _, event := range budget.Events(before, status) {
		klog.FromContext(ctx).Info("Budget changed", "reason", event.Reason, "note", event.Note)
		c.Recorder.Eventf(regarding, nil, event.Type, event.Reason, event.Reason, "%s", event.Note)
	}
	return nil
}

// storeOf returns the cache in which a write of the controller shows.
func (c *Controller) storeOf(resource schema.GroupResource) (staleness.Store, bool) {
	return c.kinds.StoreOf(resource)
}
