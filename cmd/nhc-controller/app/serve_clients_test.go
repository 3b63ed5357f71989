// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/serving"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/servingtest"
)

// serve runs a server until the end of the test.
func serve(t *testing.T, s *serving.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var wg sync.WaitGroup
	wg.Go(func() { s.Serve(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// connect opens a connection, says something, and leaves it at that.
func connect(t *testing.T, address, words string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, words) // It may be over already.
	return conn
}

// Whatever slow clients hold open, a probe and a scrape are answered.
func TestSlowClients(t *testing.T) { //nolint:paralleltest // thousands of connections at a time
	const probes, metrics = 0, 1
	for name, slow := range map[string]struct {
		server int
		words  string
	}{
		"nothing":           {probes, ""},
		"half a header":     {probes, "GET /livez HTTP/1.1\r\nHost:"},
		"no end of headers": {probes, "GET /livez HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Slow: 1\r\n", 100)},
		"a body to come":    {probes, "GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"},
		"no next request":   {probes, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"},
		"no handshake":      {metrics, ""},
		"half a handshake":  {metrics, "\x16\x03\x01\x02\x00\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			servers := listening(t)
			for range serving.MaxConnections + 100 {
				connect(t, servers[slow.server].Address(), slow.words)
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate is made at the start
			defer client.CloseIdleConnections()
			eventuallyOK(t, client, "http://"+servers[probes].Address()+"/livez", "")
			eventuallyOK(t, client, "https://"+servers[metrics].Address()+"/metrics", "")
		})
	}
}

// Requests with more than they may have are refused, and read no further.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	servers := listening(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate is made at the start
	defer client.CloseIdleConnections()
	for _, url := range []string{"http://" + servers[0].Address() + "/livez", "https://" + servers[1].Address() + "/metrics"} {
		// The server hangs up, so the answer may be lost.
		require.Contains(t, []int{0, http.StatusRequestHeaderFieldsTooLarge}, status(t, client, url, strings.Repeat("x", 1<<20)))
		eventuallyOK(t, client, url, strings.Repeat("x", 16<<10)) // Tokens may be long.
	}
}

// The answers to those without a token, and of probes, tell nothing of the process.
func TestAnswersTellNothing(t *testing.T) {
	t.Parallel()
	servers := listening(t)
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate is made at the start
	defer client.CloseIdleConnections()
	for url, want := range map[string]string{
		"http://" + servers[0].Address() + "/livez?verbose": "ok",
		"http://" + servers[0].Address() + "/":              "404 page not found\n",
		"https://" + servers[1].Address() + "/livez":        "404 page not found\n",
		"https://" + servers[1].Address() + "/metrics":      "a bearer token is needed\n",
	} {
		header, body := eventuallyAnswered(t, client, url)
		require.Equal(t, want, body, url)
		for name := range header {
			require.Contains(t, []string{"Content-Type", "Content-Length", "Date", "X-Content-Type-Options", "Connection"}, name)
		}
	}
}

// eventuallyAnswered asks without a token, and returns the answer.
func eventuallyAnswered(t *testing.T, client *http.Client, url string) (header http.Header, body string) {
	t.Helper()
	patience.Eventually(t, "an answer of "+url, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		require.Equal(t, "HTTP/1.1", response.Proto, "22.4")
		content, err := io.ReadAll(response.Body)
		header, body = response.Header, string(content)
		return err == nil
	})
	return header, body
}

// listening returns the servers of a process for the probes and the metrics.
func listening(t *testing.T) []*serving.Server {
	t.Helper()
	kube := kubefake.NewClientset()
	servingtest.AdmitTo(kube, "good", "/metrics")
	options := NewOptions()
	options.MetricsAddress, options.ProbeAddress = "127.0.0.1:0", "127.0.0.1:0"
	p := &process{options: options, clients: &clients{kube: kube}, registry: prometheus.NewRegistry()}
	servers, err := p.listen(leaderelection.NewLeaderHealthzAdaptor(0))
	require.NoError(t, err)
	require.Len(t, servers, 2)
	for _, s := range servers {
		serve(t, s)
	}
	return servers
}

// eventuallyOK waits for the answer to a request: a server hangs up on a client that is slow, and here both may be.
func eventuallyOK(t *testing.T, client *http.Client, url, extra string) {
	t.Helper()
	patience.Eventually(t, "an answer of "+url, func() bool { return status(t, client, url, extra) == http.StatusOK })
}

// status asks with a good token and an extra header, and returns the status code, zero
// without an answer.
func status(t *testing.T, client *http.Client, url, extra string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer good")
	request.Header.Set("X-Extra", extra)
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}
