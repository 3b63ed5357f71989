// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machinehealthcheck reconciles MachineHealthChecks. It is built like package
// nodehealthcheck: handlers turn events into the names of the MachineHealthChecks that they concern,
// and a sync of one of these goes one way:
//
//	snapshot ─► evaluate ─► plans ─► control plane slot, budgets ─► act ─► report
//
// Package machinehealth, which is pure, makes the decisions. A live read confirms a remediation before
// it begins.
package machinehealthcheck

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	machineinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/machine/v1beta1"
	machinelisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

const (
	// Name is the name of the controller in --controllers, logs and metrics.
	Name = "machinehealthcheck"
	// ReportingController is the name under which events are reported (spec M17.1).
	ReportingController = "machinehealthcheck-controller"
)

// Config is what a Controller depends on.
type Config struct {
	reconcile.Config
	Client versioned.Interface
	// Transform changes all objects of informers that only this controller needs.
	Transform cache.TransformFunc
	BackOff   machinehealth.BackOff
}

// Controller reconciles MachineHealthChecks.
type Controller struct {
	*reconcile.Shell

	client  versioned.Interface
	backOff machinehealth.BackOff
	// nodeHealthChecks is set by Connect before Run.
	nodeHealthChecks reconcile.NodeHealthChecks

	machineHealthChecks machineinformers.TypedMachineHealthCheckInformer
	otherLeaders        cache.SharedIndexInformer
	checks              machinelisters.MachineHealthCheckLister

	// machines are the Machines of both APIs, and the kinds that say how the controller may
	// treat them. templates are the kinds that the MachineHealthChecks refer to.
	machines, templates *watches.Set[schema.GroupVersionKind]
	wantsMu             sync.Mutex // See wantKinds.

	active activity
	// dropped means that the served CRD does not know our status fields. The controller does not send them again until
	// the CRD has changed (spec M3.2).
	dropped atomic.Bool
	missing sync.Map // Of true, by the name of a Node that a Machine names. See isMissing.
	rounds  machinehealth.RoundsByOwner
	states  sync.Map // Of *checkState, by cache.ObjectName.
	read    sync.Map // Of *readCheck, by cache.ObjectName.
	metrics *metrics
}

// New returns a controller that watches through the given informers, and others of its own. It starts
// nothing: the caller calls Connect, starts the informers, then RunWatches and Run.
func New(ctx context.Context, config Config) (*Controller, error) {
	config.SetDefaults()
	informer := newInformer(&config)
	shell, err := reconcile.NewShell(Name, config.Config, checksIn(informer.Informer().GetStore()), nodeIndexers)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		Shell: shell, client: config.Client, backOff: config.BackOff, machineHealthChecks: informer, checks: informer.Lister(),
		otherLeaders: shell.Freshness.LeasesNamed(config.Kube, OtherLeaderLease),
	}
	c.Sync = c.syncWhileActive
	backOffOwners := func() float64 { return float64(c.rounds.Owners(c.backOff, c.Clock.Now())) }
	if c.metrics, err = newMetrics(config.Metrics, backOffOwners); err != nil {
		return nil, err
	}
	c.watchKinds()
	c.Freshness.Subscribe(func() { c.SyncAll(); c.enqueueLeft() })
	return c, c.registerHandlers(ctx)
}

// Connect tells the controller about the controller of NodeHealthChecks.
func (c *Controller) Connect(nodeHealthChecks reconcile.NodeHealthChecks) {
	c.nodeHealthChecks = nodeHealthChecks
}

// RunWatches watches MachineHealthChecks, and the kinds that they need, until ctx is done.
func (c *Controller) RunWatches(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.machineHealthChecks.Informer().RunWithContext(ctx) })
	wg.Go(func() { c.otherLeaders.RunWithContext(ctx) })
	wg.Go(func() { c.machines.Run(ctx) })
	wg.Go(func() { c.templates.Run(ctx) })
	wg.Go(func() { utilwait.UntilWithContext(ctx, c.checkActive, activeInterval) })
	wg.Wait()
}

// syncWhileActive syncs, and stops if the controller becomes inactive. When it is active again, all are synced.
func (c *Controller) syncWhileActive(ctx context.Context, key cache.ObjectName) (time.Time, error) {
	while, end := c.active.while(ctx)
	defer end()
	recheck, err := c.sync(while, key)
	if err != nil && while.Err() != nil && ctx.Err() == nil {
		return time.Time{}, fmt.Errorf("%w: not active any more: %w", watches.ErrPending, err)
	}
	return recheck, err
}

// SyncAll syncs all MachineHealthChecks again.
func (c *Controller) SyncAll() { c.Wake(c.Checks.Store.ListKeys()) }

// enqueueLeft adds each MachineHealthCheck with CRs or leases to the queue, also one that no longer
// exists.
func (c *Controller) enqueueLeft() {
	for _, indexer := range c.Remediations.Caches() {
		c.Wake(indexer.ListIndexFuncValues(crsByOwner))
	}
	c.Wake(c.LeaseHolders())
}

// checksIn describes the MachineHealthChecks of a cache.
func checksIn(store cache.Store) reconcile.Checks {
	return reconcile.Checks{
		Kind: v1beta1.Kind, Resource: v1beta1.SchemeGroupVersion.WithResource(v1beta1.Plural), LogKey: "machineHealthCheck",
		Store: store, Cache: watches.MachineHealthCheckCache, OfHolder: object.MachineHealthCheckOfHolder,
	}
}

var checkResource = v1beta1.SchemeGroupVersion.WithResource(v1beta1.Plural).GroupResource()
