// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealthcheck reconciles NodeHealthChecks. Handlers turn events into the
// names of the NodeHealthChecks they concern; a sync of one of these goes one way:
//
//	snapshot ─► evaluate ─► plan ─► withhold ─► act ─► report
//
// The snapshot comes from caches. The decisions are pure: evaluate, and the packages health,
// remediation, slot and budget. A remediation passes preflight, which reads live, before it begins. The
// report is status, events, metrics and logs.
package nodehealthcheck

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
	nhcclient "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/typed/remediation/v1alpha1"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/remediation/v1alpha1"
	nhclisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/nodeindex"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/sightings"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// Name is the name of the controller in metrics, logs and field management.
const Name = execute.FieldManager

// Config is what a Controller depends on. Every field is required, except Freshness, ClockTrusted,
// DryRun, Sightings, MachineHealthChecks and Budgets.
type Config struct {
	Kube             kubernetes.Interface
	Client           nhcclient.NodeHealthChecksGetter
	Dynamic          dynamic.Interface
	NodeHealthChecks nhcinformers.TypedNodeHealthCheckInformer
	Nodes            coreinformers.TypedNodeInformer
	// Leases watches LeaseNamespace, where the leases of nodes are.
	Leases         coordinationinformers.TypedLeaseInformer
	LeaseNamespace string
	// CRDs watches the metadata of CustomResourceDefinitions.
	CRDs cache.SharedIndexInformer
	// Remediations are the kinds of CRs, shared by the controllers of this process. The caller runs them.
	Remediations *kinds.Kinds
	// Freshness follows all informers. The caller runs it. Nil means that they follow the API server.
	Freshness *watches.Freshness
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
	// ClockTrusted reports whether remediations may begin by Clock. Nil means always. The
	// caller calls SyncAll when the answer, or Clock, has changed.
	ClockTrusted func() bool
	// DryRun makes the mode of all NodeHealthChecks DryRun.
	DryRun bool
	// Sightings are shared by the controllers of this process. Nil means that there is no other.
	Sightings *sightings.Sightings
	// MachineHealthChecks are those that this process looks after. Nil means none.
	MachineHealthChecks MachineHealthChecks
	// Budgets are the RemediationBudgets that this process looks after. Nil means none.
	Budgets budget.Budgets
	// Metrics receives the collectors of the controller.
	Metrics prometheus.Registerer
}

// Controller reconciles NodeHealthChecks.
type Controller struct {
	client   nhcclient.NodeHealthChecksGetter
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	nhcs     nhclisters.NodeHealthCheckLister
	nhcStore cache.Store
	nodes    nodeCache

	leaseStore     cache.Indexer
	leaseNamespace string

	synced []cache.DoneChecker
	// freshness is that of Config, never nil.
	freshness *watches.Freshness
	clock     clock.PassiveClock
	// clockTrusted is that of Config.
	clockTrusted func() bool
	// dryRun is that of Config.
	dryRun bool
	// machineHealthChecks is that of Config, never nil.
	machineHealthChecks MachineHealthChecks
	// budgets is that of Config, never nil.
	budgets budget.Budgets

	queue reconcile.Queue

	// templates and remediations are the kinds that the NodeHealthChecks refer to,
	// and the kinds of the CRs.
	templates    *watches.Set[schema.GroupVersionKind]
	remediations *kinds.Kinds
	// platform are the optional kinds of OpenShift and Cluster API.
	platform     *watches.Set[schema.GroupVersionKind]
	platformSeen platformSeen

	slot     slot.Reservation
	refusals slot.Refusals

	index *nodeindex.Index
	// sightings are those of Config, never nil.
	sightings *sightings.Sightings

	waiters waiters
	writes  staleness.Tracker
	// lastStates has the last states of CRs that are gone.
	lastStates lastStates
	states     nhcStates
	metrics    *metrics
	events     eventReporter
}

// New returns a controller that watches through the given informers. It starts
// nothing: the caller starts the informers, then RunWatches and Run.
func New(ctx context.Context, config Config) (*Controller, error) {
	metrics, err := newMetrics(config.Metrics)
	if err != nil {
		return nil, err
	}
	if err := config.Nodes.Informer().AddIndexers(nodeIndexers); err != nil {
		return nil, fmt.Errorf("indexing Nodes: %w", err)
	}
	if err := config.Leases.Informer().AddIndexers(leaseIndexers); err != nil {
		return nil, fmt.Errorf("indexing Leases: %w", err)
	}
	if config.Freshness == nil {
		config.Freshness = watches.NewFreshness()
	}
	nodes := nodeCache{config.Nodes.Informer().GetIndexer()}
	c := &Controller{
		client:         config.Client,
		kube:           config.Kube,
		dynamic:        config.Dynamic,
		nhcs:           config.NodeHealthChecks.Lister(),
		nhcStore:       config.NodeHealthChecks.Informer().GetStore(),
		nodes:          nodes,
		leaseStore:     config.Leases.Informer().GetIndexer(),
		leaseNamespace: config.LeaseNamespace,
		index:          nodeindex.New(nodes),
		freshness:      config.Freshness,
		sightings:      cmp.Or(config.Sightings, sightings.New(config.Clock.Now, func() int64 { return 0 })),
		clock:          config.Clock,
		clockTrusted:   config.ClockTrusted,
		dryRun:         config.DryRun,
		metrics:        metrics,
		events:         eventReporter{recorder: config.Recorder},
		queue:          reconcile.NewQueue(Name),
	}
	if c.machineHealthChecks = config.MachineHealthChecks; c.machineHealthChecks == nil {
		c.machineHealthChecks = noMachineHealthChecks{}
	}
	if c.budgets = config.Budgets; c.budgets == nil {
		c.budgets = budget.None{}
	}
	c.watchKinds(config)
	c.freshness.Subscribe(c.SyncAll)
	if err := c.registerHandlers(ctx, config); err != nil {
		return nil, err
	}
	uncovered := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nhc_uncovered_nodes", Help: "Number of nodes that no NodeHealthCheck selects."}, c.uncoveredNodes)
	for _, collector := range []prometheus.Collector{uncovered, nodeCollector{c}} {
		if err := config.Metrics.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return c, nil
}

// watchKinds sets up the watches of the kinds that the NodeHealthChecks refer to.
func (c *Controller) watchKinds(config Config) {
	readOnly := watches.ReadOnly(config.Kube, config.Dynamic, config.Freshness)

	templates := readOnly
	templates.Name = "templates"
	templates.Parse, templates.Handler, templates.Changed = parseTemplate, c.templateHandler(), c.enqueue
	c.templates = watches.NewSet[schema.GroupVersionKind](templates)

	c.remediations = config.Remediations
	c.remediations.Use(kinds.User{Indexers: crIndexers, Parsed: c.recordCR, Changed: c.remediationChanged, KindsChanged: func() {
		c.SyncAll() // It was not known which CRs exist.
		c.budgets.NodesChanged()
	}})

	platform := readOnly
	platform.Name, platform.Optional = "platform", true
	platform.Parse, platform.Handler, platform.Changed = parsePlatform, c.platformHandler(), func([]string) { c.SyncAll() }
	c.platform = watches.NewSet[schema.GroupVersionKind](platform)
	c.platform.Want(platformOwner, platformKinds)
}

// RunWatches watches the kinds that the NodeHealthChecks refer to until ctx is done.
func (c *Controller) RunWatches(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.templates.Run(ctx) })
	wg.Go(func() { c.platform.Run(ctx) })
	wg.Wait()
}

// HasSynced reports whether the caches of NodeHealthChecks, Nodes, CRDs and leases are
// filled.
func (c *Controller) HasSynced() bool {
	for _, checker := range c.synced {
		if !cache.IsDone(checker) {
			return false
		}
	}
	return true
}

// Run reconciles with this many workers. When drain is closed it finishes the running syncs,
// writes the deferred statuses and returns. When ctx is done, another process may lead, so it also
// cancels running requests. It is called once.
func (c *Controller) Run(ctx context.Context, drain <-chan struct{}, workers int) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), Name))
	runner := &reconcile.Runner{
		Queue: c.queue, Key: "nodeHealthCheck", Clock: c.clock,
		Sync: func(ctx context.Context, key cache.ObjectName) (time.Time, error) { return c.sync(ctx, key.Name) },
	}
	expire := func(ctx context.Context) {
		utilwait.UntilWithContext(ctx, func(context.Context) { c.metrics.expireSeries(c.nodeExists, c.clock.Now()) }, expireInterval)
	}
	if runner.Run(ctx, drain, workers, c.synced, expire) {
		c.publishDeferred(ctx)
	}
	return nil
}

// SyncAll has all NodeHealthChecks synced again, because the clock has changed, and with
// it the instants that they wait for.
func (c *Controller) SyncAll() {
	c.refusals.Changed()
	c.enqueue(c.index.Names())
	c.enqueueLeft()
}

// enqueue adds NodeHealthChecks to the queue.
func (c *Controller) enqueue(names []string) {
	for _, name := range names {
		c.queue.Add(cache.ObjectName{Name: name})
	}
}

// storeOf returns the cache in which a write of the controller shows.
func (c *Controller) storeOf(resource schema.GroupResource) (staleness.Store, bool) {
	if resource == nhcResource {
		return c.nhcStore, true
	}
	if resource == execute.LeaseResource {
		return c.leaseStore, true
	}
	return c.remediations.StoreOf(resource)
}

var nhcResource = v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural).GroupResource()
