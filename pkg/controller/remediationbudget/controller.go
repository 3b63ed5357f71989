// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediationbudget keeps RemediationBudgets: it counts nodes for them, answers the
// controllers of health checks before anything begins, wakes those that wait, and reports.
//
//	RemediationBudgets ─┐
//	Nodes, health checks ┴─► budget.Counts ─┬─► Admit: what may begin
//	                                        └─► evaluate, at most once per second: wake, status, metrics
//
// What is decided is package budget, which is pure.
package remediationbudget

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

const (
	// Name is the name of the controller in --controllers, logs and metrics.
	Name = "remediationbudget"
	// ReportingController is the name under which events are reported.
	ReportingController = "RemediationBudget"
)

// evaluateInterval is the shortest time between two evaluations, and so between two writes of
// a status (spec B5.2), and how late those that wait are woken (spec B4.2).
const evaluateInterval = time.Second

// unaskedFor is how long a new leader leaves a budget exhausted by its status. Normally all health checks ask sooner (spec B5.2).
const unaskedFor = 3 * time.Second

// Config is what a Controller depends on. Every field is required, except Freshness.
type Config struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	Nodes   coreinformers.TypedNodeInformer
	// CRDs watches the metadata of CustomResourceDefinitions.
	CRDs cache.SharedIndexInformer
	// Freshness follows all informers.
	Freshness *watches.Freshness
	// Unread returns why there may be remediations that cannot be read, nil if there are none. NodesChanged is called
	// when that has changed. Nil means that there are none.
	Unread   func() error
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Metrics receives the collectors of the controller.
	Metrics prometheus.Registerer
}

// Controller keeps RemediationBudgets. It implements budget.Budgets.
type Controller struct {
	Config
	// kinds has the one kind RemediationBudget. Where it is not served, there are no budgets.
	kinds *watches.Set[schema.GroupVersionKind]
	// healthChecks are those that were connected, by kind.
	healthChecks map[string]budget.HealthChecks
	// machines is nil where no budget can count Machines.
	machines budget.Machines
	queue    reconcile.Queue
	writes   staleness.Tracker
	metrics  *metrics
	// revision counts the changes of specs.
	revision atomic.Int64

	mu     sync.Mutex
	counts *budget.Counts

	// changesMu guards the following. Handlers take it, so nothing else is called under it.
	changesMu sync.Mutex
	// changes are the nodes that are not observed yet. allChanged means that no node is: then changes is
	// empty.
	changes    sets.Set[string]
	allChanged bool
	// evaluated is when the budgets were evaluated, or a status was written, last.
	evaluated time.Time
}

// kind is that of RemediationBudgets.
var kind = nhcv1alpha1.SchemeGroupVersion.WithKind(nhcv1alpha1.BudgetKind)

// budgetResource is where they are served.
var budgetResource = nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural).GroupResource()

// evaluation is the key in the queue that evaluates all budgets. Others are names of budgets
// whose status is to be written.
var evaluation = cache.ObjectName{}

// New returns a controller that watches through the given informers. It starts nothing: the
// caller calls Connect, starts the informers, then RunWatches and Run.
func New(ctx context.Context, config Config) (*Controller, error) {
	metrics, err := newMetrics(config.Metrics)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		Config: config, metrics: metrics, counts: budget.NewCounts(), changes: sets.New[string](), allChanged: true,
		healthChecks: map[string]budget.HealthChecks{},
		queue:        reconcile.NewQueue(Name),
	}
	kinds := watches.ReadOnly(config.Kube, config.Dynamic, config.CRDs, config.Freshness)
	kinds.Name, kinds.Parse, kinds.Handler, kinds.Changed = "budgets", parseBudget, c.budgetHandler(), func([]string) { c.readabilityChanged() }
	c.kinds = watches.NewSet[schema.GroupVersionKind](kinds)
	config.Freshness.Subscribe(c.changed)
	c.kinds.Want(Name, sets.New(kind))
	s := watches.NewSubscription(ctx)
	s.SubscribeCRDs(config.CRDs, c.kinds.Refresh)
	return c, s.Err
}

// Connect adds the health checks of a kind, which are counted and woken. It is called before Run.
func (c *Controller) Connect(kind string, checks budget.HealthChecks) { c.healthChecks[kind] = checks }

// ConnectMachines adds the Machines, which are counted. It is called before Run.
func (c *Controller) ConnectMachines(machines budget.Machines) { c.machines = machines }

// RunWatches watches RemediationBudgets until ctx is done. It waits for the CustomResourceDefinitions, which tell whether
// there can be any budgets.
func (c *Controller) RunWatches(ctx context.Context) {
	cache.WaitFor(ctx, "", c.CRDs.HasSyncedChecker())
	c.kinds.Run(ctx) // Also if ctx is done: it ends what New has begun.
}

// Run reports, and wakes waiting health checks, until drain is closed or ctx is done. It is called
// once.
func (c *Controller) Run(ctx context.Context, drain <-chan struct{}) {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), Name))
	c.mu.Lock()
	c.counts.UnaskedUntil = c.Clock.Now().Add(unaskedFor)
	c.mu.Unlock()
	runner := &reconcile.Runner{Queue: c.queue, Key: "remediationBudget", Clock: c.Clock, Sync: c.sync}
	c.queue.Add(evaluation)
	runner.Run(ctx, drain, 1, []cache.DoneChecker{c.CRDs.HasSyncedChecker(), c.Nodes.Informer().HasSyncedChecker()})
}

// sync evaluates all budgets, or writes the status of one.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (recheck time.Time, err error) {
	if key != evaluation {
		return time.Time{}, c.writeStatus(ctx, key.Name)
	}
	if next := c.evaluate(); next > 0 {
		return c.Clock.Now().Add(next), nil
	}
	return time.Time{}, nil
}

// SyncAll evaluates everything again: the clock has changed, for example.
func (c *Controller) SyncAll() { c.changed() }

// changed queues the evaluation of the budgets, which runs at most once in evaluateInterval.
func (c *Controller) changed() {
	c.changesMu.Lock()
	wait := c.evaluated.Add(evaluateInterval).Sub(c.Clock.Now())
	c.changesMu.Unlock()
	c.queue.AddAfter(evaluation, min(max(0, wait), evaluateInterval))
}
