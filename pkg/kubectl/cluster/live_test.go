// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
)

// fakeCluster is a cluster whose answers a test decides.
type fakeCluster struct {
	kube *kubefake.Clientset
	nhc  *fake.Clientset
	// denied means that the user may not read Nodes, and away that the API server does not answer
	// about NodeHealthChecks.
	denied, away atomic.Bool
	watches      atomic.Pointer[watch.RaceFreeFakeWatcher]
}

func newFakeCluster() *fakeCluster {
	w := &fakeCluster{kube: kubefake.NewClientset(), nhc: fake.NewSimpleClientset()}
	w.kube.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if w.denied.Load() {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New(`User "viewer" cannot list resource "nodes"`))
		}
		return false, nil, nil
	})
	w.nhc.PrependReactor("list", v1alpha1.Plural, func(clienttesting.Action) (bool, runtime.Object, error) {
		if w.away.Load() {
			return true, nil, apierrors.NewInternalError(errors.New("no answer"))
		}
		return false, nil, nil
	})
	w.nhc.PrependWatchReactor(v1alpha1.Plural, func(clienttesting.Action) (bool, watch.Interface, error) {
		if w.away.Load() {
			return true, nil, apierrors.NewInternalError(errors.New("no answer"))
		}
		stream := watch.NewRaceFreeFake()
		w.watches.Store(stream)
		return true, stream, nil
	})
	return w
}

// start follows the cluster until the test ends.
func (w *fakeCluster) start(t *testing.T) *Cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := New(ctx, Config{Clients: &Clients{Kube: w.kube, NHC: w.nhc, Mapper: func() (meta.RESTMapper, error) { return nil, errors.New("none") }}, LeaseNamespace: "leases", Now: time.Now})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		c.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	synctest.Wait()
	return c
}

func check(name string) *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestFollow: a change is there at once, and many changes are one state per second.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster()
		c := w.start(t)
		time.Sleep(2 * interval)
		first := c.State()
		require.Empty(t, first.Snapshot.NodeHealthChecks)
		require.Zero(t, first.Lost)
		w.watches.Load().Add(check("a"))
		time.Sleep(2 * settleTime)
		select {
		case <-first.Outdated:
		default:
			require.Fail(t, "the change was not announced")
		}
		second := c.State()
		require.Equal(t, "a", second.Snapshot.NodeHealthChecks[0].Name)
		require.Equal(t, first.Version+1, second.Version)
		for range 100 {
			w.watches.Load().Modify(check("a"))
			time.Sleep(interval / 20)
		}
		time.Sleep(2 * interval)
		require.InDelta(t, float64(second.Version+5), float64(c.State().Version), 2, "5 s of changes")
		last := c.State().Version
		time.Sleep(time.Hour)
		require.Equal(t, last, c.State().Version, "nothing has changed")
	})
}

// TestLost: a kind that is not followed any more stays, with the time since when.
func TestLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster()
		c := w.start(t)
		w.watches.Load().Add(check("a"))
		time.Sleep(10 * interval)
		w.away.Store(true)
		w.watches.Load().Stop()
		lost := time.Now()
		time.Sleep(time.Minute)
		state := c.State()
		require.WithinDuration(t, lost, state.Lost, 5*time.Second)
		require.True(t, state.Snapshot.Missing[0].Outdated)
		require.Len(t, state.Snapshot.NodeHealthChecks, 1)
		time.Sleep(time.Hour)
		require.Equal(t, state.Lost, c.State().Lost, "it was lost then")
		w.away.Store(false)
		time.Sleep(2 * time.Minute)
		require.Zero(t, c.State().Lost)
		require.Empty(t, c.State().Snapshot.Missing)
	})
}

// TestPermissionLater: what could not be read at the start appears once it can be.
func TestPermissionLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster()
		require.NoError(t, w.kube.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}))
		w.denied.Store(true)
		c := w.start(t)
		missing := c.State().Snapshot.Missing
		require.Len(t, missing, 1)
		require.Equal(t, "You may not list nodes: ask for the ClusterRole nhc-view.", missing[0].Reason)
		time.Sleep(5 * time.Minute)
		require.Len(t, c.State().Snapshot.Missing, 1)
		w.denied.Store(false)
		time.Sleep(time.Minute)
		require.Empty(t, c.State().Snapshot.Missing)
		require.Len(t, c.State().Snapshot.Nodes, 1)
	})
}

// TestDetails: details are read once for all pages. The page names the details that
// cannot be read.
func TestDetails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster()
		reads := 0
		w.kube.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			reads++
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New(`User "viewer" cannot get resource "leases"`))
		})
		c := w.start(t)
		for range 3 {
			_, missing := c.Details(t.Context(), c.State().Snapshot, "node-1")
			require.Len(t, missing, 1)
			require.Equal(t, "leases", missing[0].Resource)
		}
		require.Equal(t, 1, reads)
		require.Empty(t, c.State().Snapshot.Missing, "the state is shared")
		time.Sleep(2 * interval)
		_, _ = c.Details(t.Context(), c.State().Snapshot, "node-1")
		require.Equal(t, 2, reads)
	})
}

// TestUnreachable: without the required kind there is nothing to show.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	w := newFakeCluster()
	w.away.Store(true)
	_, err := New(t.Context(), Config{Clients: &Clients{Kube: w.kube, NHC: w.nhc}, Now: time.Now})
	require.ErrorContains(t, err, "Cannot list nodehealthchecks")
}
