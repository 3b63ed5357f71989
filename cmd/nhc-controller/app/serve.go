// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_*
	_ "k8s.io/component-base/metrics/prometheus/restclient"              // rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/workqueue"               // workqueue_*
	"k8s.io/klog/v2"
)

// off is the address that turns a server off.
const off = "0"

// server is an HTTP server whose port is open already.
type server struct {
	name     string
	listener net.Listener
	http     *http.Server
}

// listen opens the ports of the probes and of the metrics, so that a port that is
// taken fails the start.
func (p *process) listen(watchdog *leaderelection.HealthzAdaptor) ([]*server, error) {
	var servers []*server
	if p.options.ProbeAddress != off {
		probes, err := newServer("probes", p.options.ProbeAddress, p.probes(watchdog))
		if err != nil {
			return nil, err
		}
		servers = append(servers, probes)
	}
	if p.options.MetricsAddress != off {
		metrics, err := p.metricsServer()
		if err != nil {
			return nil, err
		}
		servers = append(servers, metrics)
	}
	return servers, nil
}

// Limits of each server. Any client in the cluster may reach it, and must cost little
// whatever it does.
const (
	// Each connection gets one request, within requestTimeout. So a probe waits for at
	// most requestTimeout for each maxConnections that were opened before it, whatever
	// their clients do.
	maxConnections = 2000
	requestTimeout = 2 * time.Second
	maxHeaderBytes = 64 << 10
	// maxScrapes is how many answers of /metrics may be made at a time, which takes
	// memory.
	maxScrapes = 10
)

func newServer(name, address string, handler http.Handler) (*server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", name, err)
	}
	s := &server{name: name, listener: netutil.LimitListener(listener, maxConnections), http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: requestTimeout, // Of handshakes, too.
		ReadTimeout:       requestTimeout,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       requestTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&serverLog{server: name}, "", 0),
	}}
	s.http.SetKeepAlivesEnabled(false)
	return s, nil
}

// serverLog takes what an HTTP server writes to its log. Most of it is about
// clients, who could fill the log.
type serverLog struct {
	server string
}

// Write implements [io.Writer]: one line at a time.
func (l *serverLog) Write(line []byte) (int, error) {
	logger := klog.LoggerWithValues(klog.FromContext(context.Background()), "server", l.server)
	if text := strings.TrimSpace(string(line)); strings.HasPrefix(text, "http: panic") {
		logger.Error(nil, "Answering a request failed", "cause", text)
	} else {
		logger.V(4).Info("Connection failed", "cause", text)
	}
	return len(line), nil
}

// serve serves until ctx is done.
func (s *server) serve(ctx context.Context) {
	logger := klog.FromContext(ctx)
	defer context.AfterFunc(ctx, func() {
		// A scrape does not delay the end of the process.
		if err := s.http.Close(); err != nil {
			logger.V(2).Info("Closing a server failed", "server", s.name, "cause", err.Error())
		}
	})()
	logger.Info("Listening", "server", s.name, "address", s.listener.Addr().String())
	if err := s.http.Serve(s.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		logger.Error(err, "Server failed", "server", s.name)
	}
}

// probes answers whether the process is alive, which ends when the leader lease
// cannot be renewed in time, and whether it is ready, which a standby with filled
// caches and a clock that can be trusted is.
func (p *process) probes(watchdog *leaderelection.HealthzAdaptor) http.Handler {
	live := func(w http.ResponseWriter, r *http.Request) {
		if err := watchdog.Check(r); err != nil {
			http.Error(w, "the leader lease was not renewed in time", http.StatusInternalServerError)
			return
		}
		ok(w)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", live)
	mux.HandleFunc("GET /healthz", live)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !p.controller.HasSynced() {
			http.Error(w, "the caches are not filled yet", http.StatusServiceUnavailable)
			return
		}
		if !p.clock.trusted() {
			http.Error(w, fmt.Sprintf("the clock is more than %s ahead of that of the API server, no remediation begins", maxOffset), http.StatusServiceUnavailable)
			return
		}
		ok(w)
	})
	return mux
}

func ok(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok")) // A prober that has hung up does not need the answer.
}

// metricsServer returns the server of /metrics: HTTPS, for those whose token may get
// it.
func (p *process) metricsServer() (*server, error) {
	config, notAfter, err := p.options.tlsConfig("nhc-controller")
	if err != nil {
		return nil, err
	}
	if err := registerExpiration(p.registry, notAfter); err != nil {
		return nil, err
	}
	// Ours, and what component-base registers on its own: the Go runtime and the
	// process are among that, and must not be reported twice.
	gatherer := prometheus.Gatherers{p.registry, legacyregistry.DefaultGatherer}
	handler := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", authorized(p.clients.kube, pathOf, handler))
	metrics, err := newServer("metrics", p.options.MetricsAddress, mux)
	if err != nil {
		return nil, err
	}
	metrics.encrypt(config, p.options.HTTP2)
	return metrics, nil
}

// pathOf requires the permission to get the path of a request.
func pathOf(request *http.Request) requirement {
	return requirement{name: request.URL.Path, accesses: []authorizationv1.SubjectAccessReviewSpec{
		{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: request.URL.Path, Verb: "get"}},
	}}
}

// encrypt makes a server that has not begun to serve one of HTTPS.
func (s *server) encrypt(config *tls.Config, http2 bool) {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(http2)
	s.http.Protocols = protocols
	s.http.TLSConfig = config
	s.listener = tls.NewListener(s.listener, config)
}
