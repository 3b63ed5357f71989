// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/controller/machinehealthcheck"
	"github.com/nhc-controller/nhc-controller/pkg/controller/nodehealthcheck"
	"github.com/nhc-controller/nhc-controller/pkg/controller/remediationbudget"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	nhcinformersv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/program"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/sightings"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// clients are all the clients of the process. They share a connection pool and the rate
// limit. Leader election has no rate limit: a storm must not cost the lease.
type clients struct {
	kube     kubernetes.Interface
	election kubernetes.Interface
	events   kubernetes.Interface
	nhc      versioned.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

// Run runs the controller until ctx is done or the leader lease is lost.
func Run(ctx context.Context, options *Options) error {
	registry := prometheus.NewRegistry()
	config, err := clientConfig(options)
	if err != nil {
		return err
	}
	p := &process{options: options, registry: registry}
	if p.skew, err = newClockSkew(registry); err != nil {
		return err
	}
	config.Wrap(p.skew.wrap)
	if options.LeaderElection.LeaderElect {
		p.guard = &leaderGuard{validity: options.LeaderElection.RenewDeadline.Duration}
	}
	if p.clients, err = newClients(config, p.guard); err != nil {
		return err
	}
	return p.run(ctx)
}

// clientConfig returns the access to the API server.
func clientConfig(options *Options) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the access to the API server: %w", err)
	}
	config.QPS = options.QPS
	config.Burst = options.Burst
	config.UserAgent = "nhc-controller"
	// A stored object that breaks a rule of today draws a warning at each status
	// write. A condition and events say what is wrong with it.
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// newClients returns the clients. If there is a guard, it guards all clients except that of
// the election.
func newClients(config *rest.Config, guard *leaderGuard) (*clients, error) {
	unguarded, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("configuring HTTP: %w", err)
	}
	httpClient := unguarded
	if guard != nil {
		guarded := *unguarded
		guarded.Transport = guard.wrap(unguarded.Transport)
		httpClient = &guarded
	}
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	builtin := rest.CopyConfig(config)
	builtin.ContentType = runtime.ContentTypeProtobuf
	builtin.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c := &clients{}
	if c.kube, err = kubernetes.NewForConfigAndClient(builtin, httpClient); err != nil {
		return nil, fmt.Errorf("making the Kubernetes client: %w", err)
	}
	election := rest.CopyConfig(builtin)
	election.RateLimiter = nil
	if c.election, err = kubernetes.NewForConfigAndClient(election, unguarded); err != nil {
		return nil, fmt.Errorf("making the leader election client: %w", err)
	}
	reporting := rest.CopyConfig(builtin)
	reporting.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter() // The sink has the limit.
	if c.events, err = kubernetes.NewForConfigAndClient(reporting, httpClient); err != nil {
		return nil, fmt.Errorf("making the client for events: %w", err)
	}
	if c.nhc, err = versioned.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("making the NodeHealthCheck client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("making the dynamic client: %w", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("making the metadata client: %w", err)
	}
	return c, nil
}

// process is the running controller.
type process struct {
	options  *Options
	clients  *clients
	registry *prometheus.Registry
	skew     *clockSkew
	// guard is nil without leader election.
	guard *leaderGuard

	// watching means that the caches are being filled, or are filled: it leads.
	watching atomic.Bool
	// freshness follows all informers.
	freshness *watches.Freshness
	nodes     coreinformers.TypedNodeInformer
	sightings *sightings.Sightings
	nhcs      nhcinformersv1alpha1.TypedNodeHealthCheckInformer
	leases    coordinationinformers.TypedLeaseInformer
	crds      cache.SharedIndexInformer
	// remediations are the kinds of remediation objects of all health checks.
	remediations *kinds.Kinds
	controller   *nodehealthcheck.Controller
	// machines and budgets are nil unless --controllers names them.
	machines *machinehealthcheck.Controller
	budgets  *remediationbudget.Controller
}

// run starts everything in order and stops it in reverse order: the informers outlive the
// controllers, and the servers outlive both.
func (p *process) run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	broadcaster := events.NewBroadcaster(newEventSink(p.options, &events.EventSinkImpl{Interface: p.clients.events.EventsV1()}, p.silenced))
	defer broadcaster.Shutdown()
	reportingAs := func(controller string) events.EventRecorder {
		return broadcaster.NewRecorder(runtime.NewScheme(), controller).WithLogger(logger)
	}
	if err := p.prepare(ctx, reportingAs); err != nil {
		return err
	}
	p.watching.Store(!p.options.LeaderElection.LeaderElect) // Not ready before it begins, either.
	watchdog := leaderelection.NewLeaderHealthzAdaptor(20 * time.Second)
	servers, err := p.listen(watchdog)
	if err != nil {
		return err
	}

	// Everything that the work needs runs until the work has ended, not only until ctx is
	// done.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	if err := broadcaster.StartRecordingToSinkWithContext(background); err != nil {
		return fmt.Errorf("starting to record events: %w", err)
	}
	for _, server := range servers {
		wg.Go(func() { server.Serve(background) })
	}

	work := func(held context.Context) error {
		defer p.watch(background)()
		defer func() {
			// The recorder writes events in goroutines that it does not wait for. The lease is kept a
			// little longer for them.
			select {
			case <-held.Done():
			case <-time.After(eventGrace):
			}
		}()
		p.runControllers(held, ctx.Done())
		return nil
	}
	if !p.options.LeaderElection.LeaderElect {
		return work(background)
	}
	lock, err := p.leaderLock()
	if err != nil {
		return err
	}
	return lead(ctx, lock, &p.options.LeaderElection, watchdog, work)
}

// watch fills the caches, and keeps them filled until the function that it returns is called. A standby has no caches:
// they could lag when it begins to lead, and decide without what its predecessor has begun, and users have forbidden, in
// the last seconds. So a new leader begins like a new process, with lists that show what the API server has now.
func (p *process) watch(ctx context.Context) (stop func()) {
	p.watching.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { p.nodes.Informer().RunWithContext(ctx) })
	wg.Go(func() { p.nhcs.Informer().RunWithContext(ctx) })
	wg.Go(func() { p.leases.Informer().RunWithContext(ctx) })
	wg.Go(func() { p.crds.RunWithContext(ctx) })
	wg.Go(func() { p.remediations.Run(ctx) })
	wg.Go(func() { p.controller.RunWatches(ctx) })
	if p.machines != nil {
		wg.Go(func() { p.machines.RunWatches(ctx) })
	}
	if p.budgets != nil {
		wg.Go(func() { p.budgets.RunWatches(ctx) })
	}
	wg.Go(func() { p.returnMemory(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// returnMemory returns to the system what the first lists needed, once the caches are filled: with 5,000 nodes a quarter
// of the memory of an idle process.
func (p *process) returnMemory(ctx context.Context) {
	synced := []cache.InformerSynced{p.controller.HasSynced}
	if p.machines != nil {
		synced = append(synced, p.machines.HasSynced)
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		debug.FreeOSMemory()
	}
}

// runControllers runs the controllers that are enabled until drain is closed or ctx is done, and
// returns when all have.
func (p *process) runControllers(ctx context.Context, drain <-chan struct{}) {
	enabled := enabledControllers(p.options.Controllers)
	var wg sync.WaitGroup
	if enabled[nodeHealthCheckController] {
		wg.Go(func() { p.controller.Run(ctx, drain, p.options.ConcurrentSyncs) })
	}
	if p.machines != nil {
		wg.Go(func() { p.machines.Run(ctx, drain, p.options.ConcurrentSyncs) })
	}
	if p.budgets != nil {
		wg.Go(func() { p.budgets.Run(ctx, drain) })
	}
	wg.Wait()
}

// silenced reports whether a controller must not write events: another one looks after its objects (spec M4.2).
func (p *process) silenced(controller string) bool {
	return controller == machinehealthcheck.ReportingController && !p.machines.Active()
}

// config returns what the controllers of health checks share, without a recorder.
func (p *process) config(budgets budget.Budgets) reconcile.Config {
	return reconcile.Config{
		Kube: p.clients.kube, Dynamic: p.clients.dynamic, Nodes: p.nodes, Leases: p.leases, LeaseNamespace: p.options.LeaseNamespace,
		CRDs: p.crds, Remediations: p.remediations, Freshness: p.freshness, Clock: clock.RealClock{}, ClockTrusted: p.skew.trusted, DryRun: p.options.DryRun,
		Sightings: p.sightings, Budgets: budgets, Metrics: p.registry,
	}
}

// prepare makes the informers and the controllers, and starts nothing.
func (p *process) prepare(ctx context.Context, reportingAs func(controller string) events.EventRecorder) error {
	p.freshness = watches.NewFreshness()
	p.nodes = p.freshness.Nodes(p.clients.kube, nodehealthcheck.TrimNode)
	p.leases = p.freshness.Leases(p.clients.kube, p.options.LeaseNamespace, stripManagedFields)
	p.nhcs = nodehealthcheck.NewInformer(p.freshness, p.clients.nhc, stripManagedFields)
	p.crds = p.freshness.CRDs(p.clients.metadata)
	p.sightings = sightings.New(clock.RealClock{}.Now, func() int64 { return p.freshness.Lists(watches.NodeCache) })
	if err := p.crds.SetTransform(nameOnly); err != nil {
		return fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	if err := registerVersion(p.registry); err != nil {
		return err
	}
	if err := p.registry.Register(p.freshness); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	var err error
	if p.remediations, err = kinds.New(ctx, p.clients.kube, p.clients.dynamic, p.crds, p.freshness); err != nil {
		return err
	}
	enabled := enabledControllers(p.options.Controllers)
	var budgets budget.Budgets // Nil where there are none.
	if enabled[remediationbudget.Name] {
		p.budgets, err = remediationbudget.New(ctx, remediationbudget.Config{
			Kube: p.clients.kube, Dynamic: p.clients.dynamic, Nodes: p.nodes, CRDs: p.crds, Freshness: p.freshness, Unread: p.remediations.AnyUnread,
			Recorder: reportingAs(remediationbudget.ReportingController), Clock: clock.RealClock{}, Metrics: p.registry,
		})
		if err != nil {
			return err
		}
		budgets = p.budgets
	}
	config := p.config(budgets)
	var claims reconcile.MachineHealthChecks // Nil where they are left to others.
	if enabled[machinehealthcheck.Name] {
		config.Recorder = reportingAs(machinehealthcheck.ReportingController)
		if p.machines, err = p.newMachineController(ctx, config); err != nil {
			return err
		}
		claims = p.machines
	}
	config.Recorder = reportingAs(nodehealthcheck.ReportingController)
	p.controller, err = nodehealthcheck.New(ctx, nodehealthcheck.Config{
		Config: config, Client: p.clients.nhc.RemediationV1alpha1(), NodeHealthChecks: p.nhcs, MachineHealthChecks: claims,
	})
	if err != nil {
		return err
	}
	if p.budgets != nil {
		p.budgets.Connect(v1alpha1.Kind, p.controller)
	}
	if p.machines != nil {
		p.machines.Connect(p.controller)
	}
	if p.budgets != nil && p.machines != nil {
		p.budgets.Connect(v1beta1.Kind, p.machines)
		p.budgets.ConnectMachines(p.machines)
	}
	p.skew.changed = p.syncAll
	return nil
}

// syncAll syncs everything again, because the clock has changed.
func (p *process) syncAll() {
	p.controller.SyncAll()
	if p.machines != nil {
		p.machines.SyncAll()
	}
	if p.budgets != nil {
		p.budgets.SyncAll()
	}
}

// eventGrace is how long the events of the last syncs have to reach the API server.
const eventGrace = time.Second

// stripManagedFields drops what the controller does not read.
func stripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// nameOnly keeps what is read of a CRD: that it exists.
func nameOnly(object any) (any, error) {
	if crd, ok := object.(*metav1.PartialObjectMetadata); ok {
		crd.ObjectMeta = metav1.ObjectMeta{Name: crd.Name, UID: crd.UID, ResourceVersion: crd.ResourceVersion}
	}
	return object, nil
}

// leaderLock returns the leader lease, with an identity that no other process has,
// not even the previous one of this pod.
func (p *process) leaderLock() (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host name: %w", err)
	}
	election := &p.options.LeaderElection
	lock, err := resourcelock.New(election.ResourceLock, election.ResourceNamespace, election.ResourceName,
		p.clients.election.CoreV1(), p.clients.election.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: program.Environment("POD_NAME", host) + "_" + string(uuid.NewUUID())})
	if err != nil {
		return nil, fmt.Errorf("making the leader lease: %w", err)
	}
	return &guardedLock{Interface: lock, guard: p.guard}, nil
}
