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
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	machineinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/machine/v1beta1"
	machinelisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/sightings"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

const (
	// Name is the name of the controller in --controllers, logs and metrics.
	Name = "machinehealthcheck"
	// ReportingController is the name under which events are reported (spec M17.1).
	ReportingController = "machinehealthcheck-controller"
)

// NodeHealthChecks is the controller of NodeHealthChecks. Both share the control plane slot.
type NodeHealthChecks interface {
	// AcquireControlPlane reserves the slot. It returns why it is refused, or a function that
	// gives it back.
	AcquireControlPlane(ctx context.Context, member slot.Member) (v1alpha1.DecisionReason, func(unknown bool))
	// HasSynced reports whether its caches are filled.
	HasSynced() bool
	// ControlPlaneTaken returns the nodes whose remediation objects take the slot, and false if
	// they are not known.
	ControlPlaneTaken() (nodes []string, known bool)
	// ControlPlaneChanged wakes the health checks that wait for the slot. SyncAll wakes
	// everything.
	ControlPlaneChanged()
	SyncAll()
}

// Config is what a Controller depends on. Every field is required, except Freshness, ClockTrusted, DryRun,
// Sightings and Budgets.
type Config struct {
	Kube    kubernetes.Interface
	Client  versioned.Interface
	Dynamic dynamic.Interface
	Nodes   coreinformers.TypedNodeInformer
	// Leases watches LeaseNamespace, where the leases of nodes are.
	Leases         coordinationinformers.TypedLeaseInformer
	LeaseNamespace string
	// Transform changes all objects of informers that only this controller needs.
	Transform cache.TransformFunc
	// CRDs watches the metadata of CustomResourceDefinitions.
	CRDs cache.SharedIndexInformer
	// Remediations are the kinds of CRs, shared by the controllers of this process. The caller runs them.
	Remediations *kinds.Kinds
	// Freshness follows all informers. The caller runs it. Nil means that they follow the API server.
	Freshness *watches.Freshness
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
	// ClockTrusted reports whether remediations may begin by Clock. Nil means always.
	ClockTrusted func() bool
	// DryRun has everything decided and nothing begun.
	DryRun  bool
	BackOff machinehealth.BackOff
	// Sightings are shared by the controllers of this process. Nil means that there is no other.
	Sightings *sightings.Sightings
	// Budgets are the RemediationBudgets that this process looks after. Nil means none.
	Budgets budget.Budgets
	// Metrics receives the collectors of the controller.
	Metrics prometheus.Registerer
}

// Controller reconciles MachineHealthChecks.
type Controller struct {
	Config
	// nodeHealthChecks is set by Connect before Run.
	nodeHealthChecks NodeHealthChecks

	machineHealthChecks machineinformers.TypedMachineHealthCheckInformer
	otherLeaders        cache.SharedIndexInformer

	checks     machinelisters.MachineHealthCheckLister
	checkStore cache.Store
	nodes      cache.Indexer
	leases     cache.Indexer
	synced     []cache.DoneChecker
	queue      reconcile.Queue

	// machines are the Machines of both APIs, and the kinds that say how the controller may
	// treat them. templates are the kinds that the MachineHealthChecks refer to.
	machines, templates *watches.Set[schema.GroupVersionKind]
	wantsMu             sync.Mutex // See wantKinds.

	active  activity
	dropped droppedFields
	missing missingNodes
	rounds  machinehealth.RoundsByOwner
	// deletions are what RemediationBudgets count.
	deletions deletions
	writes    staleness.Tracker
	states    sync.Map // Of *checkState, by cache.ObjectName.
	read      sync.Map // Of *readCheck, by cache.ObjectName.
	metrics   *metrics
}

// releaseRetry is the time until a lease is released again.
const releaseRetry = time.Second

// New returns a controller that watches through the given informers, and others of its own. It starts
// nothing: the caller calls Connect, starts the informers, then RunWatches and Run.
func New(ctx context.Context, config Config) (*Controller, error) {
	if config.Freshness == nil {
		config.Freshness = watches.NewFreshness()
	}
	c := &Controller{
		Config: config, machineHealthChecks: newInformer(config.Freshness, config.Client, config.Transform),
		otherLeaders: config.Freshness.LeasesNamed(config.Kube, OtherLeaderLease, config.Transform).Informer(),
		nodes:        config.Nodes.Informer().GetIndexer(), leases: config.Leases.Informer().GetIndexer(),
		queue: reconcile.NewQueue(Name),
	}
	c.Sightings = cmp.Or(config.Sightings, sightings.New(config.Clock.Now, func() int64 { return 0 }))
	if c.Budgets == nil {
		c.Budgets = budget.None{}
	}
	c.checks, c.checkStore = c.machineHealthChecks.Lister(), c.machineHealthChecks.Informer().GetStore()
	if err := config.Nodes.Informer().AddIndexers(nodeIndexers); err != nil {
		return nil, fmt.Errorf("indexing Nodes: %w", err)
	}
	if err := config.Leases.Informer().AddIndexers(leaseIndexers); err != nil {
		return nil, fmt.Errorf("indexing Leases: %w", err)
	}
	var err error
	backOffOwners := func() float64 { return float64(c.rounds.Owners(c.BackOff, c.Clock.Now())) }
	if c.metrics, err = newMetrics(config.Metrics, backOffOwners); err != nil {
		return nil, err
	}
	c.watchKinds()
	c.Freshness.Subscribe(func() { c.SyncAll(); c.enqueueLeft() })
	return c, c.registerHandlers(ctx)
}

// Connect tells the controller about the controller of NodeHealthChecks.
func (c *Controller) Connect(nodeHealthChecks NodeHealthChecks) {
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

// Run reconciles with this many workers. When drain is closed it finishes the running syncs and
// returns. When ctx is done it also cancels running requests. It is called once.
func (c *Controller) Run(ctx context.Context, drain <-chan struct{}, workers int) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), Name))
	runner := &reconcile.Runner{Queue: c.queue, Key: "machineHealthCheck", Clock: c.Clock, Sync: c.syncWhileActive}
	runner.Run(ctx, drain, workers, c.synced)
	return nil
}

// syncWhileActive syncs, and stops if the controller becomes inactive. When it is active again, all are synced.
func (c *Controller) syncWhileActive(ctx context.Context, key cache.ObjectName) (time.Time, error) {
	while, end := c.active.during(ctx)
	defer end()
	recheck, err := c.sync(while, key)
	if err != nil && while.Err() != nil && ctx.Err() == nil {
		return time.Time{}, fmt.Errorf("%w: not active any more: %w", watches.ErrPending, err)
	}
	return recheck, err
}

// SyncAll has all MachineHealthChecks synced again.
func (c *Controller) SyncAll() { c.enqueueOwners(c.checkStore.ListKeys()) }

// enqueueLeft adds each MachineHealthCheck with CRs or leases to the queue, also one that no longer
// exists.
func (c *Controller) enqueueLeft() {
	for _, indexer := range c.Remediations.Caches() {
		c.enqueueOwners(indexer.ListIndexFuncValues(crsByOwner))
	}
	c.enqueueOwners(c.leases.ListIndexFuncValues(leasesByCheckHolder))
}

func (c *Controller) enqueue(keys ...cache.ObjectName) {
	for _, key := range keys {
		c.queue.Add(key)
	}
}
