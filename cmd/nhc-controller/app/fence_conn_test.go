// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// arrived is a request that arrived at an API server.
type arrived struct {
	*http.Request
	length int
}

// fencedServer is an API server, and the access of a process to it. The process is
// frozen, as seen by its fence, when the test calls freeze.
type fencedServer struct {
	fence   *fence
	config  *rest.Config
	clients *clients
	// begun has an element for each request whose headers have arrived.
	begun chan struct{}

	mu       sync.Mutex
	complete []arrived
	// respond answers a complete request, if it is not nil. inTransport and inDial are
	// called between the first look at the fence and the connection.
	respond             func(http.ResponseWriter, *http.Request)
	inTransport, inDial func()
}

func (s *fencedServer) freeze() { s.fence.set(time.Time{}) }
func (s *fencedServer) renew()  { s.fence.set(time.Now()) }

func newFencedServer(t *testing.T) *fencedServer {
	t.Helper()
	s := &fencedServer{fence: &fence{tenure: time.Hour}, begun: make(chan struct{}, 100)}
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // Of connections that break.
	server.StartTLS()
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("secret"), 0o600))
	s.config = &rest.Config{
		Host: server.URL, BearerTokenFile: token, UserAgent: "nhc-controller", QPS: 1000, Burst: 1000,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}
	s.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if s.inTransport != nil {
				s.inTransport()
			}
			return next.RoundTrip(request)
		})
	})
	s.config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if s.inDial != nil {
			s.inDial()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	var err error
	s.clients, err = newClients(s.config, s.fence)
	require.NoError(t, err)
	s.renew()
	return s
}

// ServeHTTP implements [http.Handler].
func (s *fencedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.begun <- struct{}{}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // As the API server does.
	}
	s.mu.Lock()
	s.complete = append(s.complete, arrived{Request: r, length: len(body)})
	s.mu.Unlock()
	if s.respond != nil {
		s.respond(w, r)
	}
}

func (s *fencedServer) received() []arrived {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete
}

const things = "/apis/example.com/v1/things"

// bounded ends long after what is waited for should have come.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func request(t *testing.T, client kubernetes.Interface, verb, path string, body io.Reader) ([]byte, error) {
	t.Helper()
	r := client.CoordinationV1().RESTClient().Verb(verb).AbsPath(path)
	if body != nil {
		r = r.Body(body)
	}
	return r.DoRaw(bounded(t))
}

func (s *fencedServer) write(t *testing.T, body io.Reader) ([]byte, error) {
	t.Helper()
	return request(t, s.clients.kube, http.MethodPost, things, body)
}

// warmUp writes once, so that there is a connection, and waits for the server to have
// nothing more to say.
func (s *fencedServer) warmUp(t *testing.T) {
	t.Helper()
	_, err := s.write(t, strings.NewReader("{}"))
	require.NoError(t, err)
	<-s.begun
}

// frozenBody is a body that freezes the process at some point, when the headers have
// arrived.
type frozenBody struct {
	*fencedServer
	before, after io.Reader
}

func (b *frozenBody) Read(p []byte) (int, error) {
	if n, err := b.before.Read(p); err == nil {
		return n, nil
	}
	if b.fence.open() {
		<-b.begun
		b.freeze()
	}
	return b.after.Read(p)
}

// TestFenceBetweenCheckAndSending: the process is frozen after it has seen that it may
// write, and goes on when another one leads.
func TestFenceBetweenCheckAndSending(t *testing.T) {
	t.Parallel()
	// while freezes the process after a part of the body.
	while := func(before, after int) func(*testing.T, *fencedServer) error {
		return func(t *testing.T, s *fencedServer) error {
			t.Helper()
			_, err := s.write(t, &frozenBody{fencedServer: s, before: bytes.NewReader(make([]byte, before)), after: bytes.NewReader(make([]byte, after))})
			return err
		}
	}
	// ahead freezes it before anything is sent over a connection that exists.
	ahead := func(verb string, body io.Reader) func(*testing.T, *fencedServer) error {
		return func(t *testing.T, s *fencedServer) error {
			t.Helper()
			s.warmUp(t)
			s.inTransport = sync.OnceFunc(s.freeze)
			_, err := request(t, s.clients.kube, verb, things, body)
			return err
		}
	}
	for name, write := range map[string]func(*testing.T, *fencedServer) error{
		"small body":                       while(0, 100),
		"last byte of many frames":         while(200_000, 1),
		"half of many frames":              while(100_000, 100_000),
		"only the end of the body":         while(100, 0),
		"before the headers":               ahead(http.MethodPut, strings.NewReader("{}")),
		"before the headers, without body": ahead(http.MethodDelete, nil),
		"while it dials": func(t *testing.T, s *fencedServer) error {
			t.Helper()
			s.inDial = sync.OnceFunc(s.freeze)
			_, err := s.write(t, strings.NewReader("{}"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFencedServer(t)
			err := write(t, s)
			require.ErrorIs(t, err, errNotLeading, "P9")
			before := s.received()
			for _, r := range before {
				require.Equal(t, http.MethodPost+" 2", r.Method+" "+strconv.Itoa(r.length), "P9: only what came first")
			}

			s.renew()
			_, err = s.write(t, strings.NewReader("{}"))
			require.NoError(t, err, "P12: it leads again")
			all := s.received()
			require.Len(t, all, len(before)+1)
			require.Equal(t, "HTTP/2.0", all[len(before)].Proto)
			for _, r := range before {
				require.NotEqual(t, r.RemoteAddr, all[len(before)].RemoteAddr, "a new connection")
			}
		})
	}
}

// TestFenceLeavesReadsAlone: what does not write goes on while the fence is closed, and
// so does the lease, with the same credentials.
func TestFenceLeavesReadsAlone(t *testing.T) {
	t.Parallel()
	s := newFencedServer(t)
	s.warmUp(t)
	s.freeze()
	const review, lease = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/coordination.k8s.io/v1/namespaces/x/leases/y"
	_, err := request(t, s.clients.kube, http.MethodGet, "/api/v1/nodes", nil)
	require.NoError(t, err, "22.5")
	_, err = request(t, s.clients.kube, http.MethodPost, review, strings.NewReader("{}"))
	require.NoError(t, err, "22.5")
	_, err = request(t, s.clients.election, http.MethodPut, lease, strings.NewReader("{}"))
	require.NoError(t, err, "or nobody would lead again")
	_, err = s.write(t, strings.NewReader("{}"))
	require.ErrorIs(t, err, errNotLeading)

	all := s.received()
	require.Len(t, all, 4)
	for i, want := range []string{"POST " + things, "GET /api/v1/nodes", "POST " + review, "PUT " + lease} {
		require.Equal(t, want, all[i].Method+" "+all[i].URL.Path)
		require.Equal(t, "Bearer secret", all[i].Header.Get("Authorization"), want)
		require.Equal(t, "nhc-controller", all[i].UserAgent(), want)
		require.Equal(t, i > 0, all[i].RemoteAddr != all[0].RemoteAddr, "the connection for writes is for nothing else")
		require.Equal(t, i > 0, all[i].RemoteAddr == all[1].RemoteAddr, "the others share one")
	}
}

// TestFenceLetsAnswersThrough: what was sent in time is carried out, and the one who
// sent it hears of that.
func TestFenceLetsAnswersThrough(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 100, "many frames": 1_000_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFencedServer(t)
			s.warmUp(t) // The connection is settled, or its settings could not be confirmed.
			s.respond = func(w http.ResponseWriter, _ *http.Request) {
				s.freeze()
				_, _ = w.Write(make([]byte, size))
			}
			answer, err := s.write(t, strings.NewReader("{}"))
			require.NoError(t, err)
			require.Len(t, answer, size)
			require.False(t, s.fence.open())
		})
	}
}

// TestFenceLetsNobodyHang: an answer that never comes is not waited for, though the
// ping that asks whether the server is there cannot be sent.
func TestFenceLetsNobodyHang(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	s := newFencedServer(t)
	s.warmUp(t)
	s.respond = func(_ http.ResponseWriter, r *http.Request) {
		s.freeze()
		<-r.Context().Done()
	}
	_, err := s.write(t, strings.NewReader("{}"))
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the connection is given up, not only this request")
}

// TestFenceEndsTheWayOfAWrite: a write that does not get on its way gives up with the
// fence, one that was sent does not.
func TestFenceEndsTheWayOfAWrite(t *testing.T) {
	t.Parallel()
	// send returns how long a write took that would take an hour.
	send := func(t *testing.T, f *fence, sent bool) (time.Duration, error) {
		t.Helper()
		begin, ended := time.Now(), func() error { return nil }
		transport := f.wrap(nil, roundTripper(func(request *http.Request) (*http.Response, error) {
			ctx := request.Context()
			ended = ctx.Err
			if sent {
				httptrace.ContextClientTrace(ctx).WroteRequest(httptrace.WroteRequestInfo{})
			}
			select {
			case <-time.After(time.Hour):
				return &http.Response{Body: http.NoBody}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://cluster"+things, strings.NewReader("{}"))
		require.NoError(t, err)
		response, err := transport.RoundTrip(request)
		if err == nil {
			require.NoError(t, ended(), "the answer can be read")
			response.Body.Close()
		}
		require.Error(t, ended(), "nothing is left behind")
		return time.Since(begin), err
	}
	synctest.Test(t, func(t *testing.T) {
		f := &fence{tenure: 10 * time.Second}
		f.set(time.Now())
		took, err := send(t, f, false)
		require.ErrorIs(t, err, errNotLeading)
		require.Equal(t, 10*time.Second, took)

		f.set(time.Now())
		time.AfterFunc(8*time.Second, func() { f.set(time.Now()) })
		took, err = send(t, f, false)
		require.ErrorIs(t, err, errNotLeading)
		require.Equal(t, 18*time.Second, took, "the lease was renewed meanwhile")

		f.set(time.Now())
		took, err = send(t, f, true)
		require.NoError(t, err)
		require.Equal(t, time.Hour, took)
	})
}

// TestFenceEndsABlockedWrite: the buffer of the kernel is full, and may have room again
// when another process leads.
func TestFenceEndsABlockedWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		time.AfterFunc(time.Hour, func() { io.Copy(io.Discard, far) })
		f := &fence{tenure: 10 * time.Second}
		conn, err := f.dial(func(context.Context, string, string) (net.Conn, error) { return near, nil })(t.Context(), "tcp", "cluster:443")
		require.NoError(t, err)
		_, err = conn.Write([]byte("hello"))
		require.ErrorIs(t, err, errNotLeading)

		f.set(time.Now())
		begin := time.Now()
		_, err = conn.Write([]byte("hello"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 10*time.Second, time.Since(begin))
	})
}
