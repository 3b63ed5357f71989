// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	nhcfake "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
)

// probe asks a probe and returns the status code.
func probe(p *process, watchdog *leaderelection.HealthzAdaptor, path string) int {
	answer := httptest.NewRecorder()
	p.probes(watchdog).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer.Code
}

// fakeProcess has fake clients and everything made, but nothing started.
func fakeProcess(t *testing.T) *process {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	crds := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"}
	scheme.AddKnownTypeWithName(crds, &metav1.PartialObjectMetadataList{})
	p := &process{
		options: NewOptions(),
		clients: &clients{
			kube: kubefake.NewClientset(), nhc: nhcfake.NewSimpleClientset(), metadata: metadatafake.NewSimpleMetadataClient(scheme),
			dynamic: dynamicfake.NewSimpleDynamicClient(scheme),
		},
		registry: prometheus.NewRegistry(),
	}
	var err error
	p.skew, err = newClockSkew(p.registry)
	require.NoError(t, err)
	recorder := events.NewFakeRecorder(100)
	require.NoError(t, p.prepare(klog.NewContext(t.Context(), klog.Logger{}), func(string) events.EventRecorder { return recorder }))
	return p
}

func TestProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeProcess(t)
		watchdog := leaderelection.NewLeaderHealthzAdaptor(20 * time.Second)
		require.Equal(t, http.StatusOK, probe(p, watchdog, "/readyz"), "22.5: a standby is ready")
		require.Equal(t, http.StatusOK, probe(p, watchdog, "/livez"), "a standby is alive")
		require.Equal(t, http.StatusOK, probe(p, watchdog, "/healthz"))
		require.Equal(t, http.StatusNotFound, probe(p, watchdog, "/metrics"), "22.4: not on this port")

		require.Empty(t, p.clients.kube.(*kubefake.Clientset).Actions(), "22.5: it has no caches")
		p.watching.Store(true)
		require.Equal(t, http.StatusServiceUnavailable, probe(p, watchdog, "/readyz"), "22.5: until the caches are filled")
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		defer p.watch(ctx)()
		wg.Go(func() { p.controller.Run(ctx, ctx.Done(), 1) })
		wg.Go(func() { p.budgets.Run(ctx, ctx.Done()) })
		synctest.Wait()
		require.Equal(t, http.StatusOK, probe(p, watchdog, "/readyz"), "22.5")

		m := &machine{start: time.Now()}
		p.skew.read = m.read
		for range minAnswers {
			apiAnswer{behind: time.Hour}.arrive(t, p.skew, m)
		}
		require.Equal(t, http.StatusServiceUnavailable, probe(p, watchdog, "/readyz"), "nothing begins by this clock")
		require.Equal(t, http.StatusOK, probe(p, watchdog, "/livez"), "a restart would not help")
		m.set = -time.Hour
		require.Equal(t, http.StatusOK, probe(p, watchdog, "/readyz"))
	})
}

func TestListenOnTakenPort(t *testing.T) {
	t.Parallel()
	options := NewOptions()
	options.ProbeAddress, options.MetricsAddress = "127.0.0.1:0", "0"
	p := &process{options: options}
	servers, err := p.listen(leaderelection.NewLeaderHealthzAdaptor(0))
	require.NoError(t, err)
	defer servers[0].Close()
	options.ProbeAddress = servers[0].Address()
	_, err = p.listen(leaderelection.NewLeaderHealthzAdaptor(0))
	require.ErrorContains(t, err, "listening for probes", "22.6: a failed start")
}

// The metric follows the certificate that is served.
func TestExpirationMetric(t *testing.T) {
	t.Parallel()
	registry, notAfter := prometheus.NewRegistry(), time.Unix(1_800_000_000, 0)
	require.NoError(t, registerExpiration(registry, func() time.Time { return notAfter }))
	shown := func() int64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		require.Equal(t, "nhc_certificate_expiration_timestamp_seconds", families[0].GetName())
		return int64(families[0].GetMetric()[0].GetGauge().GetValue())
	}
	require.Equal(t, notAfter.Unix(), shown())
	notAfter = notAfter.Add(time.Hour)
	require.Equal(t, notAfter.Unix(), shown())
	require.ErrorContains(t, registerExpiration(registry, func() time.Time { return notAfter }), "registering metrics")
}
