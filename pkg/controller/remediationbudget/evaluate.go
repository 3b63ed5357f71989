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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// evaluate wakes the health checks that need not wait any more, and queues the budgets whose status
// has changed. It returns the time until the next change without an event, zero if there is none.
func (c *Controller) evaluate() (next time.Duration) {
	now := c.Clock.Now()
	c.changesMu.Lock()
	if wait := c.evaluated.Add(evaluateInterval).Sub(now); 0 < wait && wait <= evaluateInterval {
		c.changesMu.Unlock()
		return wait // An instant at which time changes something comes right after a change.
	}
	c.evaluated = now
	c.changesMu.Unlock()
	indexer, err := c.kinds.Cache(kind)
	if err != nil {
		return 0 // There are none, or readabilityChanged follows.
	}
	if c.Ready() != nil || c.Freshness.Check(watches.NodeCache) != nil {
		return 0 // NodesChanged follows, or changed.
	}
	c.mu.Lock()
	c.observe()
	c.counts.Expire(now)
	woken := c.counts.Woken(now)
	for _, obj := range indexer.List() {
		stored := obj.(*nhcv1alpha1.RemediationBudget)
		status := c.counts.Status(stored.Name, &stored.Status, now)
		c.metrics.update(stored.Name, status, c.counts.WaitingNodes(stored.Name))
		if key := (cache.ObjectName{Name: stored.Name}); status != &stored.Status && c.queue.NumRequeues(key) == 0 {
			c.queue.Add(key) // A failed one comes back by itself.
		}
	}
	change := c.counts.NextChange(now)
	c.mu.Unlock()
	c.wake(woken)
	if change.IsZero() {
		return 0
	}
	return max(evaluateInterval, change.Sub(now))
}

// wake syncs health checks.
func (c *Controller) wake(askers []budget.Asker) {
	byKind := map[string][]string{}
	for _, asker := range askers {
		byKind[asker.Kind] = append(byKind[asker.Kind], asker.Name)
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
	now := c.Clock.Now()
	if err := c.writes.CaughtUp(name, c.kinds.StoreOf, now); err != nil {
		return err
	}
	obj, exists, err := indexer.GetByKey(name) // After CaughtUp.
	if err != nil || !exists {
		return err
	}
	stored := obj.(*nhcv1alpha1.RemediationBudget)
	before := &stored.Status
	c.mu.Lock()
	status := c.counts.Status(name, before, now)
	c.mu.Unlock()
	if status == before {
		return nil
	}
	written, err := c.updateStatus(ctx, stored, status)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("updating status: %w", err)
	}
	c.writes.Wrote(name, budgetResource, written, now)
	c.putOffEvaluation()
	regarding := &corev1.ObjectReference{APIVersion: nhcv1alpha1.SchemeGroupVersion.String(), Kind: nhcv1alpha1.BudgetKind, Name: name, UID: stored.UID}
	for _, event := range budget.Events(before, status) {
		klog.FromContext(ctx).Info("Budget changed", "reason", event.Reason, "note", event.Note)
		c.Recorder.Eventf(regarding, nil, event.Type, event.Reason, event.Reason, "%s", event.Note)
	}
	return nil
}

// putOffEvaluation delays the next evaluation until evaluateInterval from now. A write may be late because
// it was repeated or has waited for a cache, and the evaluation causes the next one.
func (c *Controller) putOffEvaluation() {
	c.changesMu.Lock()
	defer c.changesMu.Unlock()
	c.evaluated = c.Clock.Now()
}

// updateStatus replaces the status of a budget if the cache has its latest version, and returns the new
// resourceVersion. It sends no spec: the API server keeps its own, also fields that this version does not
// understand.
func (c *Controller) updateStatus(ctx context.Context, stored *nhcv1alpha1.RemediationBudget, status *nhcv1alpha1.RemediationBudgetStatus) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return "", err
	}
	update := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	update.SetGroupVersionKind(kind)
	update.SetName(stored.Name)
	update.SetUID(stored.UID)
	update.SetResourceVersion(stored.ResourceVersion)
	written, err := c.Dynamic.Resource(nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural)).
		UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: execute.FieldManager})
	if err != nil {
		return "", err
	}
	return written.GetResourceVersion(), nil
}
