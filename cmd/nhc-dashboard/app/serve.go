// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/dashboard"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/serving"
)

const (
	// qps and burst limit its requests: it follows four kinds, and reads details when a user
	// looks at a node.
	qps, burst = 50, 100
	// startInterval is how long it waits if the cluster cannot be read at the start.
	startInterval = 10 * time.Second
	// mapperLifetime is how long it takes until a kind of remediations is known that is new in the
	// cluster.
	mapperLifetime = 5 * time.Minute
)

// server serves the dashboard.
type server struct {
	options *options
	clients *cluster.Clients
	// pages is nil until the cluster was read once.
	pages atomic.Pointer[http.Handler]
}

// run serves the dashboard until ctx is done.
func run(ctx context.Context, options *options) error {
	clients, err := newClients(options.kubeconfig)
	if err != nil {
		return err
	}
	d := &server{options: options, clients: clients}
	servers, err := d.listen()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, server := range servers {
		running.Go(func() { server.Serve(ctx) })
	}
	source := d.read(ctx)
	if source == nil {
		return nil
	}
	pages := http.Handler(dashboard.New(dashboard.Config{
		Source: source, Cluster: options.cluster,
		Now: func() time.Time { return time.Now().UTC() }, // Viewers are anywhere.
	}))
	guarded := serving.Authorized(clients.Kube, func(*http.Request) serving.Requirement { return viewing(source.State().Snapshot) }, newTurnstile(pages))
	d.pages.Store(&guarded)
	klog.FromContext(ctx).Info("Serving the dashboard")
	source.Run(ctx)
	return nil
}

// newClients returns the access to the API server.
func newClients(kubeconfig string) (*cluster.Clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the access to the API server: %w", err)
	}
	config.QPS, config.Burst, config.UserAgent, config.WarningHandler = qps, burst, name, rest.NoWarnings{}
	clients := &cluster.Clients{Program: "The dashboard"}
	builtin := rest.CopyConfig(config)
	builtin.AcceptContentTypes, builtin.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	if clients.Kube, err = kubernetes.NewForConfig(builtin); err != nil {
		return nil, fmt.Errorf("making the Kubernetes client: %w", err)
	}
	if clients.NHC, err = versioned.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making the NodeHealthCheck client: %w", err)
	}
	if clients.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making the dynamic client: %w", err)
	}
	clients.Mapper = newMapper(clients.Kube)
	return clients, nil
}

// newMapper returns what finds the kinds of remediations. It reads anew now and then what the cluster
// serves, because it runs for months.
func newMapper(kube kubernetes.Interface) func() (meta.RESTMapper, error) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kube.Discovery()))
	var mu sync.Mutex
	var read time.Time
	return func() (meta.RESTMapper, error) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(read) > mapperLifetime {
			mapper.Reset()
			read = now
		}
		return mapper, nil
	}
}

// listen opens the ports, so that one that is taken fails the start.
func (d *server) listen() ([]*serving.Server, error) {
	config, _, err := d.options.tls.Config(name)
	if err != nil {
		return nil, err
	}
	pages, err := serving.Listen("dashboard", d.options.address, d)
	if err != nil {
		return nil, err
	}
	pages.Encrypt(config)
	servers := []*serving.Server{pages}
	if d.options.probeAddress != serving.Off {
		probes, err := serving.Listen("probes", d.options.probeAddress, d.probes())
		if err != nil {
			return nil, err
		}
		servers = append(servers, probes)
	}
	return servers, nil
}

// read reads the cluster for the first time. It tries until that works, and returns nil if ctx is done
// before.
func (d *server) read(ctx context.Context) *cluster.Cluster {
	for {
		source, err := cluster.New(ctx, cluster.Config{Clients: d.clients, LeaseNamespace: d.options.leaseNamespace, Now: time.Now})
		if err == nil {
			return source
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Reading the cluster failed, trying again", "in", startInterval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(startInterval):
		}
	}
}

// ServeHTTP implements [http.Handler].
func (d *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pages := d.pages.Load()
	if pages == nil {
		http.Error(w, "the cluster was not read yet", http.StatusServiceUnavailable)
		return
	}
	(*pages).ServeHTTP(w, r)
}

// probes answers whether the process is alive, and whether it has read the cluster. If it cannot follow
// the cluster any more, the pages say so.
func (d *server) probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { serving.OK(w) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if d.pages.Load() == nil {
			http.Error(w, "the cluster was not read yet", http.StatusServiceUnavailable)
			return
		}
		serving.OK(w)
	})
	return mux
}
