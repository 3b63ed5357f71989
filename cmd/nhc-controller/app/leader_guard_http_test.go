// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// guardedClients returns clients with a guard, and the requests that arrive completely at
// their server.
func guardedClients(t *testing.T, guard *leaderGuard) (c *clients, arrived chan string) {
	t.Helper()
	arrived = make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil { // Else the API server does nothing.
			arrived <- r.Method + " " + r.URL.Path
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // Of requests that break off.
	server.StartTLS()
	t.Cleanup(server.Close)
	c, err := newClients(&rest.Config{
		Host: server.URL, QPS: 1000, Burst: 1000,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}, guard)
	require.NoError(t, err)
	return c, arrived
}

func send(t *testing.T, client kubernetes.Interface, verb, path string, body io.Reader) error {
	t.Helper()
	request := client.CoordinationV1().RESTClient().Verb(verb).AbsPath(path)
	if body != nil {
		request = request.Body(body)
	}
	return request.Do(t.Context()).Error()
}

const things = "/apis/example.com/v1/things"

// TestGuardedClients: a process that does not lead reads, asks for its permissions and
// competes for the lease, and writes nothing.
func TestGuardedClients(t *testing.T) {
	t.Parallel()
	const review, lease = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/coordination.k8s.io/v1/namespaces/x/leases/y"
	guard := &leaderGuard{validity: time.Hour}
	c, arrived := guardedClients(t, guard)
	for name, client := range map[string]kubernetes.Interface{"work": c.kube, "events": c.events} {
		require.ErrorIs(t, send(t, client, http.MethodPost, things, strings.NewReader("{}")), errNotLeading, "22.5: %s", name)
	}
	for _, tc := range []struct {
		client     kubernetes.Interface
		verb, path string
	}{
		{c.kube, http.MethodGet, "/api/v1/nodes"},
		{c.kube, http.MethodPost, review},
		{c.election, http.MethodPut, lease},
	} {
		var body io.Reader
		if tc.verb != http.MethodGet {
			body = strings.NewReader("{}")
		}
		require.NoError(t, send(t, tc.client, tc.verb, tc.path, body), "22.5: %s", tc.path)
		require.Equal(t, tc.verb+" "+tc.path, <-arrived)
	}
	guard.set(time.Now())
	require.NoError(t, send(t, c.kube, http.MethodPost, things, strings.NewReader("{}")))
	require.Equal(t, http.MethodPost+" "+things, <-arrived)
}
