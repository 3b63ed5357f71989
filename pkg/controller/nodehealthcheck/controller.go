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
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcclient "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/typed/remediation/v1alpha1"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/remediation/v1alpha1"
	nhclisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/nodeindex"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// Name is the name of the controller in metrics, logs and field management.
const Name = execute.FieldManager

// Config is what a Controller depends on. MachineHealthChecks is not required.
type Config struct {
	reconcile.Config
	Client           nhcclient.NodeHealthChecksGetter
	NodeHealthChecks nhcinformers.TypedNodeHealthCheckInformer
	// MachineHealthChecks are those that this process looks after. Nil means none.
	MachineHealthChecks reconcile.MachineHealthChecks
}

// Controller reconciles NodeHealthChecks.
type Controller struct {
	*reconcile.Shell

	client nhcclient.NodeHealthChecksGetter
	nhcs   nhclisters.NodeHealthCheckLister
	// machineHealthChecks is that of Config, never nil.
	machineHealthChecks reconcile.MachineHealthChecks

	// templates are the kinds that the NodeHealthChecks refer to.
	templates *watches.Set[schema.GroupVersionKind]
	// platform are the optional kinds of OpenShift and Cluster API.
	platform     *watches.Set[schema.GroupVersionKind]
	platformSeen platformSeen

	slot     slot.Reservation
	refusals slot.Refusals

	index   *nodeindex.Index
	waiters waiters
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
	shell, err := reconcile.NewShell(Name, config.Config, checksIn(config.NodeHealthChecks.Informer().GetStore()), nodeIndexers)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		Shell:               shell,
		client:              config.Client,
		nhcs:                config.NodeHealthChecks.Lister(),
		machineHealthChecks: config.MachineHealthChecks,
		index:               nodeindex.New(shell.NodeCache),
		metrics:             metrics,
		events:              eventReporter{recorder: config.Recorder},
	}
	if c.machineHealthChecks == nil {
		c.machineHealthChecks = reconcile.NoMachineHealthChecks
	}
	c.Sync = func(ctx context.Context, key cache.ObjectName) (time.Time, error) { return c.sync(ctx, key.Name) }
	c.Beside, c.Stopped = []func(context.Context){c.expireSeries}, c.publishDeferred
	c.watchKinds()
	c.Freshness.Subscribe(c.SyncAll)
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
func (c *Controller) watchKinds() {
	readOnly := watches.ReadOnly(c.Kube, c.Dynamic, c.CRDs, c.Freshness)

	templates := readOnly
	templates.Name = "templates"
	templates.Parse, templates.Handler, templates.Changed = parseTemplate, c.templateHandler(), c.Wake
	c.templates = watches.NewSet[schema.GroupVersionKind](templates)

	c.Mapping, c.Written = c.LocateCRs, append(c.Written, c.Remediations)
	c.Remediations.Use(kinds.User{Indexers: crIndexers, Parsed: c.recordCR, Changed: c.remediationChanged, KindsChanged: func() {
		c.SyncAll() // It was not known which CRs exist.
		c.Budgets.NodesChanged()
	}})

	platform := readOnly
	platform.Name, platform.Parse, platform.Handler, platform.Changed = "platform", parsePlatform, c.platformHandler(), func([]string) { c.SyncAll() }
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

// SyncAll syncs all NodeHealthChecks again, because the clock has changed, and with
// it the instants that they wait for.
func (c *Controller) SyncAll() {
	c.refusals.Changed()
	c.Wake(c.index.Names())
	c.enqueueLeft()
}

// checksIn describes the NodeHealthChecks of a cache.
func checksIn(store cache.Store) reconcile.Checks {
	return reconcile.Checks{
		Kind: v1alpha1.Kind, Resource: v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural), LogKey: "nodeHealthCheck",
		Store: store, Cache: watches.NodeHealthCheckCache, OfHolder: object.NHCOfHolder,
	}
}

var nhcResource = v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural).GroupResource()
