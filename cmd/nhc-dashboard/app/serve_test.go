// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"

	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/serving"
)

// Until the cluster was read, the dashboard lives, is not ready, and serves nothing.
func TestDashboardIsNotReady(t *testing.T) {
	t.Parallel()
	d := &server{}
	get := func(handler http.Handler, path string) int {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return answer.Code
	}
	require.Equal(t, http.StatusOK, get(d.probes(), "/livez"))
	require.Equal(t, http.StatusServiceUnavailable, get(d.probes(), "/readyz"))
	require.Equal(t, http.StatusServiceUnavailable, get(d, "/"))
	pages := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { serving.OK(w) }))
	d.pages.Store(&pages)
	require.Equal(t, http.StatusOK, get(d.probes(), "/readyz"))
	require.Equal(t, http.StatusOK, get(d, "/"))
	require.Equal(t, http.StatusNotFound, get(d.probes(), "/"), "pages are not on the port of the probes")
}

// An API server that is away at the start is tried again, until the dashboard is to end.
func TestDashboardStartsWithoutTheCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tried sync.Map // Both clients ask at the same time.
		client := restfake.CreateHTTPClient(func(*http.Request) (*http.Response, error) {
			tried.Store(time.Now(), true)
			return nil, errors.New("connection refused")
		})
		clients := &cluster.Clients{}
		var err error
		clients.Kube, err = kubernetes.NewForConfigAndClient(&rest.Config{QPS: -1}, client)
		require.NoError(t, err)
		clients.NHC, err = versioned.NewForConfigAndClient(&rest.Config{QPS: -1}, client)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*startInterval+time.Second)
		defer cancel()
		d := &server{options: newOptions(), clients: clients}
		require.Nil(t, d.read(ctx))
		times := 0
		tried.Range(func(_, _ any) bool { times++; return true })
		require.Equal(t, 3, times)
	})
}
