// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	nhcfake "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// heldClock is a clock that is held back by so many nanoseconds.
type heldClock struct {
	clock.RealClock
	by atomic.Int64
}

func (c *heldClock) Now() time.Time {
	return c.RealClock.Now().Round(0).Add(-time.Duration(c.by.Load()))
}

// newTestController returns a controller with fake clients. Only its watches are started.
// The caller may pass its own informer of Nodes.
func newTestController(tb testing.TB, clock clock.PassiveClock, nodes ...coreinformers.TypedNodeInformer) (*Controller, *prometheus.Registry) {
	tb.Helper()
	kube, nhcs, registry := kubefake.NewClientset(), nhcfake.NewSimpleClientset(), prometheus.NewRegistry()
	factory := informers.NewSharedInformerFactory(kube, 0)
	scheme := runtime.NewScheme()
	require.NoError(tb, metav1.AddMetaToScheme(scheme))
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crdInformer, client := metadatainformer.NewFilteredMetadataInformer(metadatafake.NewSimpleMetadataClient(scheme), crds, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(), dynamicfake.NewSimpleDynamicClient(scheme)
	remediations, err := kinds.New(tb.Context(), kube, client, crdInformer, watches.NewFreshness())
	require.NoError(tb, err)
	c, err := New(tb.Context(), Config{
		Config: reconcile.Config{
			Kube: kube, Dynamic: client, CRDs: crdInformer, Freshness: watches.NewFreshness(), Remediations: remediations,
			Nodes:    append(nodes, factory.Core().V1().Nodes())[0],
			Leases:   factory.Coordination().V1().Leases(),
			Recorder: events.NewFakeRecorder(100),
			Clock:    clock,
			Metrics:  registry,
		},
		Client:           nhcs.RemediationV1alpha1(),
		NodeHealthChecks: nhcinformers.NewSharedInformerFactory(nhcs, 0).Remediation().V1alpha1().NodeHealthChecks(),
	})
	require.NoError(tb, err)
	tb.Cleanup(c.Queue.ShutDown)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	tb.Cleanup(cancel)
	go c.RunWatches(ctx) // Ends the queues of the watches.
	go remediations.Run(ctx)
	return c, registry
}

// TestQueueWaitsByTheMonotonicClock: what the queue waits for comes when its time has
// passed, whatever the clock of the controller is held back by meanwhile.
func TestQueueWaitsByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := &heldClock{}
		c, _ := newTestController(t, held)
		c.Queue.AddAfter(cache.ObjectName{Name: "workers"}, time.Minute)
		synctest.Wait()
		held.by.Store(int64(time.Hour))
		time.Sleep(time.Minute + time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, c.Queue.Len())
	})
}

// TestSyncAll: the instants that all of them wait for are others by another clock.
func TestSyncAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := newTestController(t, clock.RealClock{})
		c.index.SetCheck(checkOf(testCheck()))
		c.SyncAll()
		require.Equal(t, 1, c.Queue.Len())
	})
}
