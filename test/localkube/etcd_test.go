// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

// Not parallel: etcd and the API server are gone for a while.
func TestRestartEtcd(t *testing.T) {
	cluster, client := sharedCluster(t)
	configMaps := client.CoreV1().ConfigMaps("default")
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "before-the-crash"}, Data: map[string]string{"a": "b"}}
	written, err := configMaps.Create(t.Context(), written, metav1.CreateOptions{})
	require.NoError(t, err)
	kept := func() {
		read, err := configMaps.Get(t.Context(), written.Name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, written, read)
	}
	// It begins anew where it was, if it ends.
	events, err := watchtools.NewRetryWatcherWithContext(t.Context(), written.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return configMaps.Watch(ctx, options)
		},
	})
	require.NoError(t, err)

	before := cluster.etcd.Pid()
	require.NoError(t, cluster.RestartEtcd(t.Context()))
	require.True(t, gone(before))
	kept()
	again := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after-the-crash"}}
	patience.Eventually(t, "the API server writes", func() bool {
		_, err := configMaps.Create(t.Context(), again, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	event := <-events.ResultChan()
	require.Equal(t, watch.Added, event.Type)
	require.Equal(t, again.Name, event.Object.(*corev1.ConfigMap).Name)
	events.Stop()

	require.NoError(t, cluster.StopAPIServer())
	require.NoError(t, cluster.RestartEtcd(t.Context()), "without an API server")
	require.NoError(t, cluster.StartAPIServer(t.Context()))
	kept()
}

// Not parallel: the API server is gone for a while.
func TestCompact(t *testing.T) {
	cluster, client := sharedCluster(t)
	configMaps := client.CoreV1().ConfigMaps("default")
	for _, name := range []string{"compacted-1", "compacted-2"} {
		_, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	page, err := configMaps.List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	old := page.ResourceVersion
	_, err = configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "compacted-3"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	list := func(options metav1.ListOptions) func() error {
		return func() error {
			_, err := configMaps.List(t.Context(), options)
			return err
		}
	}
	exact := list(metav1.ListOptions{ResourceVersion: old, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	rest := list(metav1.ListOptions{Limit: 1, Continue: page.Continue})
	follow := func() error {
		events, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: old})
		if err != nil {
			return err
		}
		defer events.Stop()
		if event := <-events.ResultChan(); event.Type == watch.Error { // There is one since.
			return apierrors.FromObject(event.Object)
		}
		return nil
	}
	for _, request := range []func() error{exact, rest, follow} {
		require.NoError(t, request())
	}

	require.NoError(t, cluster.Compact(t.Context()))
	expires := func(request func() error, what string) {
		patience.Eventually(t, what, func() bool { return apierrors.IsResourceExpired(request()) })
	}
	expires(exact, "the old version is gone")
	expires(rest, "and with it the rest of the list")
	require.NoError(t, follow(), "served from the cache")
	require.NoError(t, cluster.RestartAPIServer(t.Context()))
	expires(follow, "after which the cache begins later")
	require.NoError(t, list(metav1.ListOptions{})())
}
