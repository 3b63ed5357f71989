// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

const (
	// OtherLeaderLease is the leader lease of OpenShift's controller (spec M4.1).
	OtherLeaderLease = "cluster-api-provider-healthcheck-leader"
	// disableGate is the feature gate that turns that controller off.
	disableGate = "MachineAPIOperatorDisableMachineHealthCheckController"
	// activeInterval is the time between two checks for another controller of MachineHealthChecks.
	activeInterval = time.Second
)

// activity is whether this controller looks after MachineHealthChecks. The zero value means that it
// does not, or does not know yet.
type activity struct {
	active, synced atomic.Bool
	// cause is the last cause that was logged. refusals is how often in a row the API server has refused to list
	// MachineHealthChecks that were never read. Only checkActive changes them.
	cause    string
	refusals int

	mu sync.Mutex
	// end ends the time during which the controller is active, or is not, and atEnd registers a function for that moment.
	end   context.CancelFunc
	atEnd func(call func()) (stop func() bool)
}

// set stores whether the controller is active, and reports whether that has changed. If it is not active, everything
// that is running ends: no further request begins (spec M4.2).
func (a *activity) set(ctx context.Context, active bool) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.active.Swap(active) == active {
		return false
	}
	if a.end != nil {
		a.end()
	}
	during, end := context.WithCancel(context.WithoutCancel(ctx))
	a.end, a.atEnd = end, func(call func()) func() bool { return context.AfterFunc(during, call) }
	return true
}

// while returns a context that lasts no longer than the controller is active. The caller calls end.
func (a *activity) while(ctx context.Context) (while context.Context, end context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	while, cancel := context.WithCancel(ctx)
	if !a.active.Load() {
		cancel()
		return while, cancel
	}
	stop := a.atEnd(cancel)
	return while, func() { stop(); cancel() }
}

// Active reports whether this controller looks after MachineHealthChecks. It does if it finds no other
// controller that does (spec M4).
func (c *Controller) Active() bool { return c.active.active.Load() }

// HasSynced reports whether the MachineHealthChecks are known, and whether this controller looks after
// them, as far as that can be read. Before that, it is not active.
func (c *Controller) HasSynced() bool { return c.active.synced.Load() }

// ActiveUnread returns why HasSynced returns false: ErrPending of package watches while that is being read.
func (c *Controller) ActiveUnread() error {
	if c.HasSynced() {
		return nil
	}
	return cmp.Or(c.Freshness.Cause(watches.MachineHealthCheckCache), watches.ErrPending)
}

// Unread returns why the MachineHealthChecks are not known at the moment. If they are no longer served, or the
// controller may no longer read them, the last reading holds (spec M15.1).
func (c *Controller) Unread() error {
	err := c.Freshness.Check(watches.MachineHealthCheckCache)
	if err == nil || refused(err) {
		return nil
	}
	return fmt.Errorf("reading MachineHealthChecks: %w", err)
}

// refused reports whether the API server has answered that it does not serve such objects, or that the
// controller may not read them.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// checkActive finds out whether the controller is active. It wakes everything if that has changed or has
// become known.
func (c *Controller) checkActive(ctx context.Context) {
	if !c.machineHealthChecks.Informer().HasSynced() && refused(c.Freshness.Cause(watches.MachineHealthCheckCache)) {
		c.active.refusals++
	} else {
		c.active.refusals = 0
	}
	_, gatesErr := c.machines.Cache(featureGateKind)
	synced := c.unfilled() == "" && !errors.Is(gatesErr, watches.ErrPending) // The following code reads this state, or a newer one.
	cause, known := c.inactiveBecause()
	if !known && c.active.active.Load() {
		return // A failed read changes nothing (spec P5).
	}
	active := cause == ""
	if synced && !c.HasSynced() {
		c.wantMachines() // Leases may be for Machines that no MachineHealthCheck is about any more.
	}
	changed := c.active.set(ctx, active) // Before anything says so.
	if cause != c.active.cause || changed {
		klog.FromContext(ctx).Info("Looking after MachineHealthChecks", "active", active, "cause", cause)
	}
	c.active.cause = cause
	c.metrics.setActive(active)
	if c.active.synced.Swap(synced) != synced || changed {
		c.Budgets.NodesChanged()
		c.SyncAll()
		c.enqueueLeft()
		c.nodeHealthChecks.SyncAll()
	}
}

// inactiveBecause returns what keeps the controller from being active, empty if nothing does, and
// whether that could be read.
func (c *Controller) inactiveBecause() (cause string, known bool) {
	if unfilled := c.unfilled(); unfilled != "" {
		return unfilled, false
	}
	if c.withoutChecks() {
		return "MachineHealthChecks cannot be read: " + c.Freshness.Cause(watches.MachineHealthCheckCache).Error(), true
	}
	if err := c.Freshness.Check(watches.OtherLeaderCache); err != nil {
		return err.Error(), false
	}
	for _, obj := range c.otherLeaders.GetStore().List() {
		if lease, ok := obj.(*coordinationv1.Lease); ok && remediation.LeaseValid(lease, c.Clock.Now()) {
			return "another controller leads by lease " + lease.Namespace + "/" + lease.Name, true
		}
	}
	return c.featureGate()
}

// enoughRefusals is how many times in a row the API server has to refuse: one that has just started refuses
// everything.
const enoughRefusals = 3

// withoutChecks reports whether others may assume that there are no MachineHealthChecks: they have never been read,
// because the API server does not serve them, or refuses to show them (spec M15.1, B1.4).
func (c *Controller) withoutChecks() bool { return c.active.refusals >= enoughRefusals }

// unfilled returns which caches are not filled yet, empty if all are. The caches of NodeHealthChecks have
// to show their remediations, which count for the control plane slot and for budgets.
func (c *Controller) unfilled() string {
	for _, checker := range c.Synced {
		if !c.withoutChecks() && !cache.IsDone(checker) {
			return "the caches are not filled yet"
		}
	}
	if !c.nodeHealthChecks.HasSynced() {
		return "the caches of NodeHealthChecks are not filled yet"
	}
	return ""
}

// featureGate looks at the feature gate that turns OpenShift's controller off. Where feature gates
// are not served, there is none.
func (c *Controller) featureGate() (cause string, known bool) {
	gates, err := c.machines.Cache(featureGateKind)
	if meta.IsNoMatchError(err) {
		return "", true
	}
	if err != nil {
		return "the feature gates cannot be read: " + err.Error(), false
	}
	object, exists, err := gates.GetByKey("cluster")
	gate, ok := object.(*unstructured.Unstructured)
	if err != nil || !exists || !ok {
		return "there is no feature gate named cluster", true
	}
	versions, _, _ := unstructured.NestedFieldNoCopy(gate.Object, "status", "featureGates")
	list, _ := versions.([]any)
	if len(list) == 0 {
		return "the feature gates say nothing yet", true
	}
	for _, item := range list {
		version, _ := item.(map[string]any)
		if !enables(version["enabled"], disableGate) {
			return fmt.Sprintf("feature gate %s is not enabled in version %v, so another controller looks after them", disableGate, version["version"]), true
		}
	}
	return "", true
}

// enables reports whether a list of feature gates has one of this name.
func enables(enabled any, name string) bool {
	list, _ := enabled.([]any)
	for _, item := range list {
		if gate, _ := item.(map[string]any); gate["name"] == name {
			return true
		}
	}
	return false
}
