// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// serving is a server that serves until the end of the test.
func serving(t *testing.T, s *server) string {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var wg sync.WaitGroup
	wg.Go(func() { s.serve(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s.listener.Addr().String()
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

// ask sends a request and returns the status code, zero without an answer.
func ask(conn net.Conn) int {
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // An answer does not come then either.
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}

// eventually waits for other goroutines, of which nothing else tells.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 90*time.Second, time.Millisecond)
}

func (r *room) has() (guests, answering int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for g := range r.guests {
		answering += g.answering
	}
	return len(r.guests), answering
}

// newSmallServer has a room for three, and an answer that waits for the test.
func newSmallServer(t *testing.T) (address string, r *room, answer chan struct{}) {
	t.Helper()
	answer = make(chan struct{}, 100)
	s, err := newServer("test", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { <-answer; ok(w) }))
	require.NoError(t, err)
	r = s.listener.(*room)
	r.limit = 3
	return serving(t, s), r, answer
}

func TestRoomParts(t *testing.T) {
	t.Parallel()
	address, r, answer := newSmallServer(t)
	regular := connect(t, address, "")
	eventually(t, func() bool { guests, _ := r.has(); return guests == 1 })
	slow := connect(t, address, "GET / HTTP/1.1\r\nHost:")
	eventually(t, func() bool { guests, _ := r.has(); return guests == 2 })
	answer <- struct{}{}
	require.Equal(t, http.StatusOK, ask(regular))
	eventually(t, func() bool { _, answering := r.has(); return answering == 0 })
	silent := connect(t, address, "")
	eventually(t, func() bool { guests, _ := r.has(); return guests == 3 })

	// The oldest but for the regular one, who was answered since, has to go.
	newcomer := connect(t, address, "")
	_, err := slow.Read(make([]byte, 1))
	require.Error(t, err)
	answer <- struct{}{}
	require.Equal(t, http.StatusOK, ask(newcomer))
	answer <- struct{}{}
	require.Equal(t, http.StatusOK, ask(regular))
	answer <- struct{}{}
	require.Equal(t, http.StatusOK, ask(silent), "there was room for three")

	require.NoError(t, silent.Close())
	eventually(t, func() bool { guests, _ := r.has(); return guests == 2 })
}

func TestRoomIsFull(t *testing.T) {
	t.Parallel()
	address, r, answer := newSmallServer(t)
	codes := make(chan int)
	for range 3 {
		conn := connect(t, address, "")
		go func() { codes <- ask(conn) }()
	}
	eventually(t, func() bool { _, answering := r.has(); return answering == 3 })
	require.Zero(t, ask(connect(t, address, "")), "nobody is interrupted")
	for range 3 {
		answer <- struct{}{}
		require.Equal(t, http.StatusOK, <-codes)
	}
	eventually(t, func() bool { _, answering := r.has(); return answering == 0 })
	answer <- struct{}{}
	require.Equal(t, http.StatusOK, ask(connect(t, address, "")), "it passes")
}

// Whatever slow clients hold open, a scrape and the probes are answered.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]string{
		"nothing":           "",
		"half a header":     "GET /livez HTTP/1.1\r\nHost:",
		"no end of headers": "GET /livez HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Slow: 1\r\n", 100),
		"a body to come":    "GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
		"half a handshake":  "\x16\x03\x01\x02\x00\x01",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := listening(t)
			for range 2 * maxConnections {
				for _, s := range servers {
					connect(t, s.listener.Addr().String(), words)
				}
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate is made at the start
			defer client.CloseIdleConnections()
			require.Equal(t, http.StatusOK, status(t, client, "http://"+servers[0].listener.Addr().String()+"/livez", ""))
			require.Equal(t, http.StatusOK, status(t, client, "https://"+servers[1].listener.Addr().String()+"/metrics", ""))
		})
	}
}

// Requests with more than they may have are refused, and read no further.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	servers := listening(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate is made at the start
	defer client.CloseIdleConnections()
	for _, url := range []string{"http://" + servers[0].listener.Addr().String() + "/livez", "https://" + servers[1].listener.Addr().String() + "/metrics"} {
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, status(t, client, url, strings.Repeat("x", 1<<20)))
		require.Equal(t, http.StatusOK, status(t, client, url, strings.Repeat("x", 16<<10)), "tokens may be long")
	}
}

// The answers to those without a token, and of probes, tell nothing of the process.
func TestAnswersTellNothing(t *testing.T) {
	t.Parallel()
	servers := listening(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate is made at the start
	defer client.CloseIdleConnections()
	for url, want := range map[string]string{
		"http://" + servers[0].listener.Addr().String() + "/livez?verbose": "ok",
		"http://" + servers[0].listener.Addr().String() + "/":              "404 page not found\n",
		"https://" + servers[1].listener.Addr().String() + "/livez":        "404 page not found\n",
		"https://" + servers[1].listener.Addr().String() + "/metrics":      "a bearer token is needed\n",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, want, string(body), url)
		for name := range response.Header {
			require.Contains(t, []string{"Content-Type", "Content-Length", "Date", "X-Content-Type-Options"}, name)
		}
	}
}

// listening returns the servers of a process for the probes and the metrics.
func listening(t *testing.T) []*server {
	t.Helper()
	kube := kubefake.NewClientset()
	admits(kube, "good")
	options := NewOptions()
	options.MetricsAddress, options.ProbeAddress = "127.0.0.1:0", "127.0.0.1:0"
	p := &process{options: options, clients: &clients{kube: kube}, registry: prometheus.NewRegistry()}
	servers, err := p.listen(leaderelection.NewLeaderHealthzAdaptor(0))
	require.NoError(t, err)
	require.Len(t, servers, 2)
	for _, s := range servers {
		serving(t, s)
	}
	return servers
}

// status asks with a good token and an extra header, and returns the status code.
func status(t *testing.T, client *http.Client, url, extra string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer good")
	request.Header.Set("X-Extra", extra)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode
}
