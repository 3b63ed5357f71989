// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !full

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
)

// discoveryPeriod is how soon controllers know a new kind, as in kube-controller-manager.
const discoveryPeriod = 30 * time.Second

func init() { components["kube-controller-manager"] = runControllers }

// manager runs the controllers of kube-controller-manager that tests use. All of them would
// be four times as much to compile.
type manager struct {
	names             []string
	kubeconfig        string
	tokenKeyFile      string
	nodeMonitorPeriod time.Duration
	nodeGracePeriod   time.Duration

	config    *rest.Config
	client    kubernetes.Interface
	clients   clientbuilder.ControllerClientBuilder // Each controller is a ServiceAccount with its own role.
	informers informers.SharedInformerFactory
	all       informerfactory.InformerFactory // Also of kinds without a type, by their metadata.
	metadata  metadata.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	started   chan struct{} // Closed when the informers run.
}

func runControllers() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m := &manager{started: make(chan struct{})}
	for _, step := range []func(context.Context) error{m.parse, m.connect, m.run} {
		if err := step(ctx); err != nil {
			klog.Error(err)
			return 1
		}
	}
	return 0
}

// parse reads the flags, which have the names and meanings of those of kube-controller-manager. Others are ignored.
func (m *manager) parse(context.Context) error {
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.StringSliceVar(&m.names, "controllers", nil, "controllers to run")
	flags.StringVar(&m.kubeconfig, "kubeconfig", "", "kubeconfig file")
	flags.StringVar(&m.tokenKeyFile, "service-account-private-key-file", "", "key that signs tokens of ServiceAccounts")
	flags.DurationVar(&m.nodeMonitorPeriod, "node-monitor-period", 5*time.Second, "how often to look at nodes")
	flags.DurationVar(&m.nodeGracePeriod, "node-monitor-grace-period", 50*time.Second, "how long a node may be silent")
	return flags.Parse(os.Args[1:])
}

func (m *manager) connect(ctx context.Context) (err error) {
	if m.config, err = clientcmd.BuildConfigFromFlags("", m.kubeconfig); err != nil {
		return err
	}
	m.config.QPS = -1 // No limit.
	if m.client, err = kubernetes.NewForConfig(m.config); err != nil {
		return err
	}
	if m.metadata, err = metadata.NewForConfig(m.config); err != nil {
		return err
	}
	m.clients = clientbuilder.NewDynamicClientBuilder(rest.AnonymousClientConfig(m.config), m.client.CoreV1(), "kube-system")
	m.informers = informers.NewSharedInformerFactory(m.client, 0)
	m.all = informerfactory.NewInformerFactory(m.informers, metadatainformer.NewSharedInformerFactory(m.metadata, 0))
	m.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(m.client.Discovery()))
	go wait.Until(m.mapper.Reset, discoveryPeriod, ctx.Done())
	return nil
}

// run runs the controllers until ctx is done. The process ends with it: nothing waits for them.
func (m *manager) run(ctx context.Context) error {
	var runs []func(context.Context)
	for _, name := range m.names {
		build, ok := controllers[name]
		if !ok {
			return fmt.Errorf("there is no controller %q", name)
		}
		run, err := build(ctx, m)
		if err != nil {
			return fmt.Errorf("starting %s: %w", name, err)
		}
		runs = append(runs, run)
	}
	m.all.Start(ctx.Done())
	close(m.started)
	for _, run := range runs {
		go run(ctx)
	}
	<-ctx.Done()
	return nil
}
