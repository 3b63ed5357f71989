// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/controller/machinehealthcheck"
	"github.com/nhc-controller/nhc-controller/pkg/controller/nodehealthcheck"
	"github.com/nhc-controller/nhc-controller/pkg/controller/remediationbudget"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/sightings"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// leaseNamespace has the leases of nodes.
const leaseNamespace = "medik8s-leases"

// replica is one process of the controller: the real one on clients of the server in
// memory. Leader election is simulated: the cluster says who leads.
type replica struct {
	// registry has the metrics.
	registry *prometheus.Registry
	name     string
	client   *memapi.Client

	controller *nodehealthcheck.Controller
	budgets    *remediationbudget.Controller
	// machines is nil where there are no Machines.
	machines     *machinehealthcheck.Controller
	freshness    *watches.Freshness
	remediations *kinds.Kinds
	informers    []cache.SharedIndexInformer

	cancel context.CancelFunc
	drain  chan struct{}
	// stale is how stale its first lists are.
	stale time.Duration
	// leading is whether it leads, and led whether it ever did.
	leading atomic.Bool
	led     bool
	// done ends when everything of the process has ended, and worked when Run has.
	done, worked sync.WaitGroup
}

// prepare makes the informers and the controllers as the binary does, and starts nothing
// of it.
func (r *replica) prepare(ctx context.Context, t *testing.T, machines bool, recorder func(controller string) *recorder) {
	t.Helper()
	config := r.client.Config()
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	nhcs, err := versioned.NewForConfig(config)
	require.NoError(t, err)
	dynamicClient, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	metadataClient, err := metadata.NewForConfig(config)
	require.NoError(t, err)

	r.drain = make(chan struct{})
	clock := &countingClock{process: t.Name() + ", " + r.name}
	r.freshness = watches.NewFreshness()
	whole := func(object any) (any, error) { return object, nil }
	nodes, leases := r.freshness.Nodes(kube, nodehealthcheck.TrimNode), r.freshness.Leases(kube, leaseNamespace, whole)
	checks, crds := nodehealthcheck.NewInformer(r.freshness, nhcs, whole), r.freshness.CRDs(metadataClient)
	seen := sightings.New(clock.Now, func() int64 { return r.freshness.Lists(watches.NodeCache) })
	r.remediations, err = kinds.New(ctx, kube, dynamicClient, crds, r.freshness)
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	r.registry = registry
	r.budgets, err = remediationbudget.New(ctx, remediationbudget.Config{
		Kube: kube, Dynamic: dynamicClient, Nodes: nodes, CRDs: crds, Freshness: r.freshness, Unread: r.remediations.AnyUnread,
		Recorder: recorder(remediationbudget.ReportingController), Clock: clock, Metrics: registry,
	})
	require.NoError(t, err)
	common := reconcile.Config{
		Kube: kube, Dynamic: dynamicClient, Nodes: nodes, Leases: leases, LeaseNamespace: leaseNamespace, CRDs: crds, Remediations: r.remediations, Freshness: r.freshness,
		Clock: clock, ClockTrusted: func() bool { return true }, Sightings: seen, Budgets: r.budgets, Metrics: registry,
	}
	var claims reconcile.MachineHealthChecks // Nil where there are none.
	if machines {
		common.Recorder = recorder(machinehealthcheck.ReportingController)
		r.machines, err = machinehealthcheck.New(ctx, machinehealthcheck.Config{Config: common, Client: nhcs, BackOff: backOff})
		require.NoError(t, err)
		claims = r.machines
	}
	common.Recorder = recorder(nodehealthcheck.ReportingController)
	r.controller, err = nodehealthcheck.New(ctx, nodehealthcheck.Config{
		Config: common, Client: nhcs.RemediationV1alpha1(), NodeHealthChecks: checks, MachineHealthChecks: claims,
	})
	require.NoError(t, err)
	r.budgets.Connect(v1alpha1.Kind, r.controller)
	if machines {
		r.machines.Connect(r.controller)
		r.budgets.Connect(v1beta1.Kind, r.machines)
		r.budgets.ConnectMachines(r.machines)
	}
	r.informers = []cache.SharedIndexInformer{nodes.Informer(), leases.Informer(), checks.Informer(), crds}
}

// watch fills the caches. A standby has none.
func (r *replica) watch(ctx context.Context) {
	ctx, r.cancel = context.WithCancel(ctx)
	for _, informer := range r.informers {
		r.done.Go(func() { informer.RunWithContext(ctx) })
	}
	r.done.Go(func() { r.remediations.Run(ctx) })
	r.done.Go(func() { r.controller.RunWatches(ctx) })
	r.done.Go(func() { r.budgets.RunWatches(ctx) })
	if r.machines != nil {
		r.done.Go(func() { r.machines.RunWatches(ctx) })
	}
}

// lead has the process fill its caches and reconcile.
func (r *replica) lead(ctx context.Context, t *testing.T, workers int) {
	t.Helper()
	r.leading.Store(true)
	r.led = true
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName(r.name))
	r.watch(ctx)
	ctx, cancel := context.WithCancel(ctx)
	stop := r.cancel
	r.cancel = func() { cancel(); stop() }
	r.worked.Go(func() { r.controller.Run(ctx, r.drain, workers) })
	r.worked.Go(func() { r.budgets.Run(ctx, r.drain) })
	if r.machines == nil {
		return
	}
	r.worked.Go(func() { r.machines.Run(ctx, r.drain, workers) })
}

// stop ends the process in order: the running syncs finish first.
func (r *replica) stop() {
	close(r.drain)
	r.worked.Wait()
	r.leading.Store(false)
	r.cancel()
	r.done.Wait()
}

// die ends the process at once: nothing that it sends arrives any more. It may be called
// again, and after the client was killed.
func (r *replica) die(ctx context.Context) {
	r.client.Kill()
	r.leading.Store(false)
	if r.led {
		r.cancel()
	} else { // Run ends what New has begun.
		ended, cancel := context.WithCancel(ctx)
		cancel()
		r.watch(ended)
		r.controller.Run(ended, r.drain, 1)
		r.budgets.Run(ended, r.drain)
		if r.machines != nil {
			r.machines.Run(ended, r.drain, 1)
		}
	}
	r.worked.Wait()
	r.done.Wait()
}
