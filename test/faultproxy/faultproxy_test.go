// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

// world is a proxy between an API server and a client like that of the controller.
type world struct {
	*Proxy
	t      *testing.T
	client *http.Client
	// unseen has requests be swallowed, lost answers, and goAway has answers send GOAWAY.
	unseen, lost, goAway atomic.Bool
	requests             atomic.Int32
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/watch" {
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // It is one.
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	w := &world{t: t}
	var err error
	w.Proxy, err = Start(config, Hooks{
		Before: func(r *http.Request) bool {
			w.requests.Add(1)
			if r.ProtoMajor != 2 {
				t.Errorf("a request by %s", r.Proto)
			}
			return !w.unseen.Load()
		},
		After: func(_ *http.Request, response *http.Response) bool {
			if w.goAway.Load() {
				response.Header.Set("Connection", "close")
			}
			return !w.lost.Load()
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Stop()) })
	w.client, err = rest.HTTPClientFor(w.Config(config))
	require.NoError(t, err)
	return w
}

// get asks for something.
func (w *world) get(path string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience.Limit)
	w.t.Cleanup(cancel)
	return w.getWithin(ctx, path)
}

func (w *world) getWithin(ctx context.Context, path string) (io.ReadCloser, error) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	require.NoError(w.t, err)
	response, err := w.client.Do(request)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// eventuallyGot waits for an answer: a client finds out that its connection is dead when it uses it.
func (w *world) eventuallyGot() {
	w.t.Helper()
	patience.Eventually(w.t, "an answer", func() bool {
		body, err := w.get("/")
		return err == nil && body.Close() == nil
	})
}

// requireGot requires that a request is answered, and the number of connections until then.
func (w *world) requireGot(connections int) {
	w.t.Helper()
	body, err := w.get("/")
	require.NoError(w.t, err)
	require.NoError(w.t, body.Close())
	require.Equal(w.t, connections, w.Connections())
}

// TestSwallowed: the stream of a request that is swallowed is reset, and the connection goes on.
func TestSwallowed(t *testing.T) {
	w := newWorld(t)
	w.requireGot(1)
	for _, swallowed := range []*atomic.Bool{&w.unseen, &w.lost} {
		swallowed.Store(true)
		_, err := w.get("/")
		require.ErrorContains(t, err, "stream error")
		swallowed.Store(false)
	}
	w.requireGot(1)
}

// TestGoAway: a client that gets GOAWAY opens another connection for the next requests, while a watch
// goes on.
func TestGoAway(t *testing.T) {
	w := newWorld(t)
	watch, err := w.get("/watch")
	require.NoError(t, err)
	defer watch.Close()
	w.goAway.Store(true)
	w.requireGot(1)
	w.goAway.Store(false)
	patience.Eventually(t, "another connection", func() bool {
		body, err := w.get("/")
		return err == nil && body.Close() == nil && w.Connections() == 2
	})
	begun := make([]byte, len("begun"))
	_, err = io.ReadFull(watch, begun)
	require.NoError(t, err)
	require.Equal(t, "begun", string(begun))
}

// TestWays: a silent connection breaks when the way is open again, or when the client finds out. A closed one breaks
// at once.
func TestWays(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	w := newWorld(t)
	watch, err := w.get("/watch")
	require.NoError(t, err)
	defer watch.Close()
	w.SetWay(HalfOpen)
	_, err = io.ReadAll(watch)
	require.ErrorContains(t, err, "client connection lost", "its pings get no answer")
	w.eventuallyGot()
	require.GreaterOrEqual(t, w.Connections(), 2)

	w.SetWay(Silent)
	heard := w.requests.Load()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = w.getWithin(ctx, "/")
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing gets through")
	w.SetWay(Open)
	require.Equal(t, heard, w.requests.Load(), "what was sent is lost")

	w.SetWay(Closed)
	_, err = w.get("/")
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "it breaks at once")
	w.SetWay(Open)
	w.eventuallyGot()
}
