// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nhc-controller/nhc-controller/pkg/controller/nodehealthcheck"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/meter"
)

const (
	// bareInformer as the first argument makes this executable a process that does nothing
	// but watch Nodes. The second argument is a kubeconfig.
	bareInformer = "bare-informer"
	// atMostBareInformer is how much more CPU than that process the controller may take.
	atMostBareInformer = 1.25
)

// runBareInformer keeps a cache of Nodes like that of the controller until ctx is done.
func runBareInformer(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the access to the API server: %w", err)
	}
	by, err := newClients(config, bareInformer)
	if err != nil {
		return err
	}
	nodes := informers.NewSharedInformerFactoryWithOptions(by.kube, 0, informers.WithTransform(nodehealthcheck.TrimNode)).Core().V1().Nodes()
	nodes.Informer().RunWithContext(ctx)
	return nil
}

// startBareInformer returns when the process has filled its cache.
func (e *environment) startBareInformer(ctx context.Context) (*localkube.Process, error) {
	config, err := e.cluster.ServiceAccountConfig(ctx, metav1.NamespaceDefault, controlAccount)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(e.cluster.Dir(), bareInformer+".kubeconfig")
	if err := localkube.WriteKubeconfig(kubeconfig, config); err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process, err := e.cluster.StartProcess(localkube.Command{Name: bareInformer, Path: self, Args: []string{bareInformer, kubeconfig}})
	if err != nil {
		return nil, fmt.Errorf("starting a bare informer: %w", err)
	}
	if err := waitUntilIdle(ctx, process.Pid()); err != nil {
		process.Stop()
		return nil, fmt.Errorf("%w\nlast lines of the log of the bare informer:\n%s", err, process.LogTail())
	}
	return process, nil
}

// coresOf returns how much CPU a process uses while something happens.
func coresOf(process *localkube.Process, happens func() error) (float64, error) {
	before, err := meter.UsageOf(process.Pid())
	if err != nil {
		return 0, err
	}
	if err := happens(); err != nil {
		return 0, err
	}
	after, err := meter.UsageOf(process.Pid())
	return (after.CPU - before.CPU).Seconds() / after.At.Sub(before.At).Seconds(), err
}
