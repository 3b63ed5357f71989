// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcfake "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
	nhclisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// TestCacheStaysBehind: a cache that never shows our own write holds up nothing for ever
// (spec P1, P12).
func TestCacheStaysBehind(t *testing.T) {
	t.Parallel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "leases", Name: "node-a"}}
	tests := map[string]struct {
		resource schema.GroupResource
		live     func(*v1alpha1.NodeHealthCheck)
		fails    error
		check    func(t *testing.T, c *Controller, nhc *v1alpha1.NodeHealthCheck, err error)
	}{
		"6.8 a kind of CRs is unreadable until it is listed": {
			resource: schema.GroupResource{Group: "example.com", Resource: "reboots"},
			check: func(t *testing.T, c *Controller, nhc *v1alpha1.NodeHealthCheck, err error) {
				t.Helper()
				require.NoError(t, err)
				require.Equal(t, "10", nhc.ResourceVersion)
				_, err = c.remediations.Cache(readableKind.GroupKind())
				require.ErrorIs(t, err, watches.ErrPending)
				require.NotEqual(t, watches.ErrPending, err, "P1: the other kinds go on")
				time.Sleep(time.Second)
				synctest.Wait()
				_, err = c.remediations.Cache(readableKind.GroupKind())
				require.NoError(t, err, "P12")
			},
		},
		"leases are listed": {
			resource: execute.LeaseResource,
			check: func(t *testing.T, c *Controller, nhc *v1alpha1.NodeHealthCheck, err error) {
				t.Helper()
				require.NoError(t, err)
				_, exists, err := c.leases(nhc.Name).GetByKey("leases/node-a")
				require.NoError(t, err)
				require.True(t, exists)
				_, exists, err = c.leases("another").GetByKey("leases/node-a")
				require.NoError(t, err)
				require.False(t, exists, "its cache does for others")
			},
		},
		"the NodeHealthCheck is read": {
			resource: nhcResource,
			live:     func(nhc *v1alpha1.NodeHealthCheck) { nhc.ResourceVersion = "100" },
			check: func(t *testing.T, _ *Controller, nhc *v1alpha1.NodeHealthCheck, err error) {
				t.Helper()
				require.NoError(t, err)
				require.Equal(t, "100", nhc.ResourceVersion)
			},
		},
		"P5 its spec has changed unseen": {
			resource: nhcResource,
			live:     func(nhc *v1alpha1.NodeHealthCheck) { nhc.Generation++ },
			check:    failsWith(errUnseenSpec),
		},
		"P5 it was replaced unseen": {
			resource: nhcResource,
			live:     func(nhc *v1alpha1.NodeHealthCheck) { nhc.UID = "another" },
			check:    failsWith(errUnseenSpec),
		},
		"P5 its deletion is unseen": {
			resource: nhcResource,
			live:     func(nhc *v1alpha1.NodeHealthCheck) { nhc.DeletionTimestamp = new(metav1.NewTime(epoch)) },
			check:    failsWith(errUnseenSpec),
		},
		"P5 it cannot be read":     {resource: nhcResource, fails: errOutOfOrder, check: failsWith(errOutOfOrder)},
		"P5 leases cannot be read": {resource: execute.LeaseResource, fails: errOutOfOrder, check: failsWith(errOutOfOrder)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withRemediations(t, fakeRemediators{}, nil, func(t *testing.T, c *Controller) {
				t.Helper()
				nhc, err := c.nhcs.Get("workers")
				require.NoError(t, err)
				live := nhc.DeepCopy()
				if tc.live != nil {
					tc.live(live)
				}
				nhcs, kube := nhcfake.NewSimpleClientset(live), kubefake.NewClientset(lease)
				fail := func(clienttesting.Action) (bool, runtime.Object, error) { return tc.fails != nil, nil, tc.fails }
				nhcs.PrependReactor("*", "*", fail)
				kube.PrependReactor("*", "*", fail)
				c.client, c.kube, c.leaseNamespace, c.clock = nhcs.RemediationV1alpha1(), kube, "leases", clock.RealClock{}
				c.nhcStore, c.leaseStore = cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, leaseIndexers)

				c.writes.Wrote(nhc.Name, tc.resource, "100", c.clock.Now())
				time.Sleep(liveAfter - 1)
				_, err = c.caughtUp(t.Context(), nhc.Name)
				require.IsType(t, &staleness.Error{}, err)
				time.Sleep(time.Nanosecond)
				got, err := c.caughtUp(t.Context(), nhc.Name)
				tc.check(t, c, got, err)
			})
		})
	}
}

// TestCacheCatchesUpDuringTheCheck: a sync never goes by a NodeHealthCheck that is older than what its
// caches were found to show (spec P5).
func TestCacheCatchesUpDuringTheCheck(t *testing.T) {
	t.Parallel()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	require.NoError(t, store.Add(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.ResourceVersion = "10" })))
	written := testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.ResourceVersion = "100" })
	c := &Controller{nhcs: nhclisters.NewNodeHealthCheckLister(store), nhcStore: catchingUp{store, written}, machineHealthChecks: noMachineHealthChecks{}, clock: clock.RealClock{}}
	c.writes.Wrote(written.Name, nhcResource, written.ResourceVersion, c.clock.Now())
	nhc, err := c.caughtUp(t.Context(), written.Name)
	require.NoError(t, err)
	require.Equal(t, written.ResourceVersion, nhc.ResourceVersion)
}

// catchingUp gets the event of an object at the moment when somebody asks how far it is.
type catchingUp struct {
	cache.Store
	obj *v1alpha1.NodeHealthCheck
}

func (s catchingUp) LastStoreSyncResourceVersion() string {
	if err := s.Update(s.obj); err != nil {
		panic(err)
	}
	return s.obj.ResourceVersion
}

var errOutOfOrder = errors.New("out of order")

func failsWith(want error) func(*testing.T, *Controller, *v1alpha1.NodeHealthCheck, error) {
	return func(t *testing.T, _ *Controller, _ *v1alpha1.NodeHealthCheck, err error) {
		t.Helper()
		require.ErrorIs(t, err, want)
	}
}

// TestStaleRetriesAreCounted: one series per resource, which goes with the
// NodeHealthCheck (spec 20.2).
func TestStaleRetriesAreCounted(t *testing.T) {
	t.Parallel()
	withRemediations(t, fakeRemediators{}, nil, func(t *testing.T, c *Controller) {
		t.Helper()
		s := &story{registry: prometheus.NewRegistry()}
		var err error
		c.metrics, err = newMetrics(s.registry)
		require.NoError(t, err)
		nhc, err := c.nhcs.Get("workers")
		require.NoError(t, err)
		c.showRetries(nhc)
		require.Equal(t, map[string]float64{
			"/workers/nodehealthchecks.remediation.medik8s.io": 0, "/workers/leases.coordination.k8s.io": 0, "/workers/reboots.example.com": 0, "/workers/fences.example.com": 0,
		}, s.values(t, "nhc_stale_cache_retries_total"), "20.3: from the beginning")

		c.behind = workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](staleBase, staleMax)
		c.nhcStore, c.leaseStore, c.clock = cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, leaseIndexers), clock.RealClock{}
		c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
		defer c.queue.ShutDown()
		c.writes.Wrote(nhc.Name, execute.LeaseResource, "100", c.clock.Now())
		c.queue.Add(cache.ObjectName{Name: nhc.Name})
		for range 3 {
			require.True(t, c.processNext(klog.NewContext(context.Background(), klog.Logger{})))
		}
		require.InDelta(t, 3, s.values(t, "nhc_stale_cache_retries_total")["/workers/leases.coordination.k8s.io"], 0)
		c.forget(nhc.Name)
		require.Empty(t, s.values(t, "nhc_stale_cache_retries_total"))
	})
}
