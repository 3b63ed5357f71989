// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_*
	_ "k8s.io/component-base/metrics/prometheus/restclient"              // rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/workqueue"               // workqueue_*

	"github.com/nhc-controller/nhc-controller/pkg/serving"
)

// listen opens the ports of the probes and of the metrics, so that a port that is
// taken fails the start.
func (p *process) listen(watchdog *leaderelection.HealthzAdaptor) ([]*serving.Server, error) {
	var servers []*serving.Server
	if p.options.ProbeAddress != serving.Off {
		probes, err := serving.Listen("probes", p.options.ProbeAddress, p.probes(watchdog))
		if err != nil {
			return nil, err
		}
		servers = append(servers, probes)
	}
	if p.options.MetricsAddress != serving.Off {
		metrics, err := p.metricsServer()
		if err != nil {
			return nil, err
		}
		servers = append(servers, metrics)
	}
	return servers, nil
}

// maxScrapes is how many answers of /metrics are made at a time. Each takes memory.
const maxScrapes = 10

// probes answers whether the process is alive and ready. It is not alive when it cannot
// renew the leader lease in time. It is ready with a trusted clock and filled caches, as a
// standby without caches.
func (p *process) probes(watchdog *leaderelection.HealthzAdaptor) http.Handler {
	live := func(w http.ResponseWriter, r *http.Request) {
		if err := watchdog.Check(r); err != nil {
			http.Error(w, "the leader lease was not renewed in time", http.StatusInternalServerError)
			return
		}
		serving.OK(w)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", live)
	mux.HandleFunc("GET /healthz", live)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if p.watching.Load() && !p.controller.HasSynced() {
			http.Error(w, "the caches are not filled yet", http.StatusServiceUnavailable)
			return
		}
		if !p.skew.trusted() {
			http.Error(w, fmt.Sprintf("the clock is more than %s ahead of that of the API server, no remediation begins", maxAhead), http.StatusServiceUnavailable)
			return
		}
		serving.OK(w)
	})
	return mux
}

// metricsServer returns the server of /metrics. It uses HTTPS, and only answers clients
// whose token may get /metrics.
func (p *process) metricsServer() (*serving.Server, error) {
	config, notAfter, err := p.options.TLS.Config("nhc-controller")
	if err != nil {
		return nil, err
	}
	if err := registerExpiration(p.registry, notAfter); err != nil {
		return nil, err
	}
	// Our metrics, and those that component-base registers. The latter include the Go runtime
	// and the process, which must not be reported twice.
	gatherer := prometheus.Gatherers{p.registry, legacyregistry.DefaultGatherer}
	handler := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", serving.Authorized(p.clients.kube, serving.PathOf, handler))
	metrics, err := serving.Listen("metrics", p.options.MetricsAddress, mux)
	if err != nil {
		return nil, err
	}
	metrics.Encrypt(config)
	return metrics, nil
}

// registerExpiration adds the metric that says when the serving certificate expires. A scrape
// is a connection, so the files have just been looked at.
func registerExpiration(registry prometheus.Registerer, notAfter func() time.Time) error {
	expiration := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nhc_certificate_expiration_timestamp_seconds",
		Help: "When the certificate expires with which the metrics are served, in seconds since 1970.",
	}, func() float64 { return float64(notAfter().Unix()) })
	if err := registry.Register(expiration); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}
