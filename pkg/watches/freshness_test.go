// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// nodeServer serves Nodes as the API server does: by a list, and by a watch that begins with one.
type nodeServer struct {
	mu      sync.Mutex
	watcher *watch.FakeWatcher
	// listing makes a watch begin with a list; silent leaves out the bookmark at its end.
	listing, silent bool
	failure         error
	lists           int
}

func (s *nodeServer) List(context.Context, metav1.ListOptions) (*corev1.NodeList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	return &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Node{*bareNode("a")}}, s.failure
}

func (s *nodeServer) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := options.SendInitialEvents != nil && *options.SendInitialEvents
	if list && !s.listing {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
	}
	if s.failure != nil {
		return nil, s.failure
	}
	s.watcher = watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
	if list {
		s.watcher.Add(bareNode("a"))
	}
	if list && !s.silent {
		end := bareNode("")
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		s.watcher.Action(watch.Bookmark, end)
	}
	return s.watcher, nil
}

func bareNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}}
}

// fail lets watches and lists fail, and ends the one that is open.
func (s *nodeServer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	s.watcher.Stop()
}

func (s *nodeServer) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = nil
}

// TestTypedFreshness: a typed informer whose watch fails counts as not read after 30 s, however it lists,
// and an ordinary end of a watch is no failure (spec P5, 6.8).
func TestTypedFreshness(t *testing.T) {
	for name, listing := range map[string]bool{"lists, then watches": false, "lists by a watch": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &nodeServer{listing: listing}
				f := NewFreshness()
				calls := 0
				f.Subscribe(func() { calls++ })
				informer := NewInformer(f, NodeCache, struct{}{}, server, &corev1.Node{}, "")
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
				var wg sync.WaitGroup
				defer wg.Wait()
				defer cancel()
				wg.Go(func() { informer.RunWithContext(ctx) })
				pass(time.Hour)
				require.True(t, informer.HasSynced())
				require.Equal(t, listing, server.lists == 0)
				require.NoError(t, f.Check(NodeCache))
				require.Equal(t, int64(1), f.Lists(NodeCache))
				for range 10 {
					server.watcher.Stop()
					pass(time.Minute)
					require.NoError(t, f.Check(NodeCache), "an ordinary end")
				}
				require.Equal(t, int64(1), f.Lists(NodeCache), "no version was missed")
				require.Zero(t, calls)

				server.fail(errServer)
				pass(StaleAfter - time.Second)
				require.NoError(t, f.Check(NodeCache))
				pass(2 * time.Second)
				err := f.Check("others", NodeCache)
				require.True(t, Unread(err), "a sync waits to be called")
				require.ErrorContains(t, err, errServer.Error())
				require.ErrorContains(t, err, "the watch of nodes has failed for more than 30s")
				require.Equal(t, 1, calls)
				require.InDelta(t, 1, failing(t, f), 0)
				require.True(t, informer.HasSynced(), "22.5: ready stays ready")

				server.mend()
				pass(2 * time.Minute)
				require.NoError(t, f.Check(NodeCache))
				require.Equal(t, 2, calls, "P2: they are called when it is over")
				require.Zero(t, failing(t, f))
				require.Equal(t, int64(2), f.Lists(NodeCache), "an internal error has the informer list anew")
			})
		})
	}
}

// TestListThatDoesNotEnd: a watch that is open, without the bookmark at the end of its list, shows nothing.
func TestListThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &nodeServer{listing: true}
		f := NewFreshness()
		informer := NewInformer(f, NodeCache, struct{}{}, server, &corev1.Node{}, "")
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { informer.RunWithContext(ctx) })
		pass(time.Minute)
		server.mu.Lock()
		server.silent = true
		server.watcher.Error(&metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired})
		server.mu.Unlock()
		pass(time.Minute)
		require.ErrorIs(t, f.Check(NodeCache), errLost)
		require.Equal(t, int64(1), f.Lists(NodeCache))
	})
}

// failing returns the value of the only series of a Freshness.
func failing(t *testing.T, f *Freshness) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(f))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Len(t, families[0].GetMetric(), 1)
	return families[0].GetMetric()[0].GetGauge().GetValue()
}
