// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/tools/leaderelection"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_*
	_ "k8s.io/component-base/metrics/prometheus/restclient"              // rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/version"                 // kubernetes_build_info
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

func newServer(name, address string, handler http.Handler) (*server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", name, err)
	}
	return &server{name: name, listener: listener, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    64 << 10,
	}}, nil
}

// serve serves until ctx is done.
func (s *server) serve(ctx context.Context) {
	logger := klog.FromContext(ctx)
	defer context.AfterFunc(ctx, func() {
		// Nobody waits for a scrape at the end of the process.
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
// caches is.
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
		ok(w)
	})
	return mux
}

func ok(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok")) // A prober that has hung up does not need the answer.
}

// metricsServer returns the server of /metrics: HTTPS with a certificate made at
// the start, for those whose token may get it.
func (p *process) metricsServer() (*server, error) {
	// Ours, and what component-base registers on its own: the Go runtime and the
	// process are among that, and must not be told of twice.
	gatherer := prometheus.Gatherers{p.registry, legacyregistry.DefaultGatherer}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", authorized(p.clients.kube, promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})))
	metrics, err := newServer("metrics", p.options.MetricsAddress, mux)
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("nhc-controller", nil, []string{"localhost"})
	if err != nil {
		return nil, fmt.Errorf("generating a certificate: %w", err)
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("loading the generated certificate: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	if p.options.HTTP2 {
		config.NextProtos = []string{"h2", "http/1.1"}
		protocols.SetHTTP2(true)
	}
	metrics.http.Protocols = protocols
	metrics.http.TLSConfig = config
	metrics.listener = tls.NewListener(metrics.listener, config)
	return metrics, nil
}
