// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediationbudget

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// Ready implements budget.Budgets.
func (c *Controller) Ready() error {
	indexer, err := c.kinds.Cache(kind)
	if errors.Is(err, watches.ErrPending) {
		return fmt.Errorf("remediation budgets: %w", err)
	}
	if err == nil && errors.Is(c.machinesReadable(), watches.ErrPending) && slices.ContainsFunc(indexer.List(), aboutMachines) {
		return fmt.Errorf("remediation budgets about Machines: %w", watches.ErrPending)
	}
	return nil
}

// aboutMachines reports whether a budget of the cache counts Machines.
func aboutMachines(obj any) bool {
	return obj.(*nhcv1alpha1.RemediationBudget).Spec.MachineSelector != nil
}

// errNoMachines is the error of budgets about Machines in a process that does not watch
// Machines.
var errNoMachines = errors.New("machineSelector needs the controller machinehealthcheck, which does not run")

// machinesReadable returns why Machines cannot be counted.
func (c *Controller) machinesReadable() error {
	if c.machines == nil {
		return errNoMachines
	}
	return c.machines.MachinesReadable()
}

// unreadable returns why the budgets are not known. If the kind does not exist, there are none.
func (c *Controller) unreadable() error {
	_, err := c.kinds.Cache(kind)
	if err != nil && meta.IsNoMatchError(err) && c.kinds.Gone(kind) {
		return nil
	}
	return err
}

// Admit implements budget.Budgets.
func (c *Controller) Admit(asker budget.Asker, requests []budget.Request) (map[string]*budget.Refusal, int64) {
	revision := c.revision.Load() // Before the decision: a change since then outdates it.
	if err := c.unreadable(); err != nil {
		refusals := make(map[string]*budget.Refusal, len(requests))
		for i := range requests {
			refusals[requests[i].Node] = &budget.Refusal{Message: "RemediationBudgets cannot be read: " + err.Error()}
		}
		return refusals, revision
	}
	for kind, checks := range c.healthChecks {
		if !checks.HasSynced() {
			return c.refuseUncounted("the "+kind+"s have not been read yet", requests), revision
		}
	}
	if c.Unread != nil {
		if err := c.Unread(); err != nil {
			return c.refuseUncounted(err.Error(), requests), revision
		}
	}
	return c.admit(asker, requests), revision
}

// refuseUncounted refuses the requests that a budget selects, because not all remediations are known.
func (c *Controller) refuseUncounted(cause string, requests []budget.Request) map[string]*budget.Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observe()
	refusals := map[string]*budget.Refusal{}
	for i := range requests {
		if node := requests[i].Node; c.counts.Concerns(node) {
			refusals[node] = &budget.Refusal{Message: cause}
		}
	}
	return refusals
}

// admit decides by the caches. They show the writes of the asker, perhaps before their handlers
// are called.
func (c *Controller) admit(asker budget.Asker, requests []budget.Request) map[string]*budget.Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observe(c.counts.Reserved(asker)...)
	if len(requests) > 0 || c.counts.Waits(asker) {
		defer c.changed()
	}
	return c.counts.Admit(asker, requests, c.Clock.Now())
}

// Revision implements budget.Budgets.
func (c *Controller) Revision() int64 { return c.revision.Load() }

// End implements budget.Budgets.
func (c *Controller) End(asker budget.Asker, node string, result budget.Usage) {
	c.mu.Lock()
	c.counts.End(asker, node, result, c.Clock.Now())
	c.mu.Unlock()
	c.changed()
}

// Forget implements budget.Budgets.
func (c *Controller) Forget(asker budget.Asker) {
	c.mu.Lock()
	c.counts.Forget(asker, c.Clock.Now())
	c.mu.Unlock()
	c.changed()
}

// NodeChanged implements budget.Budgets.
func (c *Controller) NodeChanged(node string) {
	c.changesMu.Lock()
	if !c.allChanged {
		c.changes.Insert(node)
	}
	c.changesMu.Unlock()
	c.changed()
}

// NodesChanged implements budget.Budgets.
func (c *Controller) NodesChanged() {
	c.changesMu.Lock()
	c.forgetChanges()
	c.changesMu.Unlock()
	c.changed()
}

// forgetChanges lets the next observe look at all nodes. Until then it keeps no names. The caller holds changesMu.
func (c *Controller) forgetChanges() { c.changes, c.allChanged = sets.New[string](), true }

// observe brings the counts up to date: the nodes that have changed, and some more. The caller
// holds mu.
func (c *Controller) observe(more ...string) {
	c.changesMu.Lock()
	changes, all := c.changes, c.allChanged
	c.changes, c.allChanged = sets.New[string](), len(c.counts.Budgets()) == 0
	c.changesMu.Unlock()
	if len(c.counts.Budgets()) == 0 {
		c.counts.StopFollowing()
		return // With the first budget, all nodes are observed.
	}
	if all {
		c.parseAboutMachines()
		changes.Insert(c.Nodes.Informer().GetIndexer().ListKeys()...)
		changes.Insert(c.counts.Nodes()...)
		if c.machines != nil {
			changes.Insert(c.machines.MachineNames()...)
		}
		for _, checks := range c.healthChecks {
			changes.Insert(checks.Remediating()...)
		}
	}
	changes.Insert(more...)
	for name := range changes {
		c.counts.SetNode(name, c.node(name))
	}
}

// node returns what is known of a node.
func (c *Controller) node(name string) budget.Node {
	var node budget.Node
	if object := watches.Cached[*corev1.Node](c.Nodes.Informer().GetIndexer(), name); object != nil {
		node.Exists, node.Labels, node.NotReady = true, object.Labels, !remediation.Ready(object) // Spec B3.1.
	}
	if c.machines != nil {
		node.Machine = c.machines.MachineOf(name)
	}
	for _, checks := range c.healthChecks {
		node.Merge(checks.Observe(name))
	}
	return node
}

// parseBudget reads an object of the API. A budget that cannot be understood hides no others: without a selector, it
// refuses all nodes.
func parseBudget(obj *unstructured.Unstructured) runtime.Object {
	b := &nhcv1alpha1.RemediationBudget{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, b); err != nil {
		b = &nhcv1alpha1.RemediationBudget{}
		b.Name, b.UID, b.ResourceVersion, b.Generation = obj.GetName(), obj.GetUID(), obj.GetResourceVersion(), obj.GetGeneration()
	}
	b.ManagedFields = nil
	return b
}

// budgetHandler handles RemediationBudgets.
func (c *Controller) budgetHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.budgetChanged(obj.(*nhcv1alpha1.RemediationBudget)) },
		UpdateFunc: func(_, obj any) { c.budgetChanged(obj.(*nhcv1alpha1.RemediationBudget)) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				c.budgetsGone(name.Name)
			}
		},
	}
}

// budgetChanged handles a RemediationBudget that was created or updated.
func (c *Controller) budgetChanged(b *nhcv1alpha1.RemediationBudget) {
	c.mu.Lock()
	known := c.counts.Budget(b.Name)
	if known != nil && known.UID == b.UID && known.Generation == b.Generation {
		c.mu.Unlock()
		// A failed write may have used an older version, and so may a comparison that found no change.
		c.queue.Forget(cache.ObjectName{Name: b.Name})
		c.changed()
		return
	}
	c.counts.SetBudget(c.parse(b), budget.PastOf(b, c.Clock.Now()))
	c.mu.Unlock()
	c.specChanged()
}

// parse evaluates the spec of a budget. While Machines cannot be counted, a budget about Machines refuses
// all nodes: their Machines are not known.
func (c *Controller) parse(b *nhcv1alpha1.RemediationBudget) *budget.Budget {
	if aboutMachines(b) {
		if err := c.machinesReadable(); err != nil {
			return budget.Unreadable(b, err.Error())
		}
	}
	return budget.Parse(b)
}

// parseAboutMachines evaluates the budgets about Machines again if Machines can be counted now, or no
// longer. The caller holds mu.
func (c *Controller) parseAboutMachines() {
	indexer, err := c.kinds.Cache(kind)
	if err != nil {
		return
	}
	for _, obj := range indexer.List() {
		b := obj.(*nhcv1alpha1.RemediationBudget)
		known := c.counts.Budget(b.Name)
		if known == nil || !aboutMachines(b) || known.UID != b.UID || known.Generation != b.Generation {
			continue // Another one is still to be handled.
		}
		if fresh := c.parse(b); fresh.Problem != known.Problem {
			c.counts.SetBudget(fresh, nil)
			c.revision.Add(1)
		}
	}
}

// budgetsGone forgets budgets that were deleted.
func (c *Controller) budgetsGone(names ...string) {
	c.mu.Lock()
	for _, name := range names {
		c.counts.RemoveBudget(name)
		c.writes.Forget(name)
		c.metrics.forget(name)
	}
	c.mu.Unlock()
	c.specChanged()
}

// forgetDeleted forgets the budgets that were deleted while they could not be read: a new cache
// begins without them. Without the kind there are none.
func (c *Controller) forgetDeleted() {
	indexer, err := c.kinds.Cache(kind)
	if err != nil && !c.kinds.Gone(kind) {
		return
	}
	c.mu.Lock()
	deleted := slices.DeleteFunc(c.counts.Budgets(), func(name string) bool {
		if err != nil {
			return false
		}
		_, exists, _ := indexer.GetByKey(name) // A cache in memory has no errors.
		return exists
	})
	c.mu.Unlock()
	if len(deleted) > 0 {
		c.budgetsGone(deleted...)
	}
}

// specChanged outdates the earlier admissions, and syncs all health checks: the numbers of those that wait have changed, and
// a stop of everything concerns all.
func (c *Controller) specChanged() {
	c.revision.Add(1)
	c.changed()
	for _, checks := range c.healthChecks {
		checks.SyncAll()
	}
}

// Stop implements budget.Budgets.
func (c *Controller) Stop() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts.Stop()
}

// readabilityChanged is called when the kind can be read, or cannot any more.
func (c *Controller) readabilityChanged() {
	c.forgetDeleted()
	c.changesMu.Lock()
	c.forgetChanges() // None is observed while the kind cannot be read.
	c.changesMu.Unlock()
	c.specChanged()
}
