// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// demo shows the whole loop on a real Kubernetes API server: a node stops sending
// heartbeats, Kubernetes marks it NotReady, the controller finds it unhealthy and
// creates a remediation, a remediator repairs the node, and the remediation goes.
// It ends by itself, with an error if a step does not appear.
//
// With KEEP=1 in the environment the cluster goes on until it is interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// demo is the running cluster with everything in it.
type demo struct {
	cluster    *localkube.ControlPlane
	controller *localkube.Process
	kube       kubernetes.Interface
	nhc        versioned.Interface
	dynamic    dynamic.Interface
	timeline   *timeline
}

func run(ctx context.Context) (err error) {
	fmt.Println("Starting etcd, kube-apiserver, kube-controller-manager and simulated nodes")
	cluster, err := localkube.Start(ctx, localkube.Options{NodeLifecycle: true, Kwok: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	d := &demo{cluster: cluster}
	if err := d.connect(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	defer cancel()

	if err := d.install(ctx); err != nil {
		return err
	}
	repairs := &remediator.Remediator{Kube: d.kube, Dynamic: d.dynamic, HeartbeatLabel: localkube.HeartbeatLabel, HeartbeatValue: localkube.HeartbeatValue}
	wg.Go(func() {
		if err := repairs.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "remediator:", err)
		}
	})
	d.timeline = newTimeline(d)
	wg.Go(func() { d.timeline.watch(ctx) })
	if err := d.play(ctx); err != nil {
		return fmt.Errorf("%w\nlast lines of the controller's log:\n%s", err, d.controller.LogTail())
	}
	if os.Getenv("KEEP") != "" {
		d.keep(ctx)
	}
	return nil
}

func (d *demo) connect() (err error) {
	config := d.cluster.AdminConfig()
	if d.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if d.nhc, err = versioned.NewForConfig(config); err != nil {
		return err
	}
	d.dynamic, err = dynamic.NewForConfig(config)
	return err
}

// install does what a user does: apply the manifest, install a remediator, and run
// the controller, which in a cluster the Deployment does.
func (d *demo) install(ctx context.Context) error {
	fmt.Println("Applying manifests/install.yaml, and the manifest of a demo remediator")
	if err := deploy.Install(ctx, d.cluster); err != nil {
		return err
	}
	if err := d.apply(ctx, remediator.Manifest); err != nil {
		return err
	}
	if err := deploy.AwaitRBAC(ctx, d.cluster, remediator.Resource.Group); err != nil {
		return fmt.Errorf("waiting for the aggregated permissions: %w", err)
	}
	if err := d.awaitKinds(ctx); err != nil {
		return err
	}
	if err := d.apply(ctx, remediator.TemplateManifest); err != nil {
		return err
	}
	fmt.Println("Starting the controller as ServiceAccount nhc-system/nhc-controller")
	var err error
	d.controller, err = deploy.Start(ctx, d.cluster, deploy.Controller{Name: "nhc-controller", Args: []string{"-v=4"}})
	return err
}

func (d *demo) awaitKinds(ctx context.Context) error {
	_, err := d.cluster.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s",
		"crd/powercycleremediations.demo.nhc-controller.io", "crd/powercycleremediationtemplates.demo.nhc-controller.io")
	if err != nil {
		return fmt.Errorf("waiting for the kinds of the remediator: %w", err)
	}
	return nil
}

func (d *demo) apply(ctx context.Context, manifest string) error {
	_, err := d.cluster.KubectlInput(ctx, strings.NewReader(manifest), "apply", "-f", "-")
	return err
}

// keep prints how to look around, and waits for an interrupt.
func (d *demo) keep(ctx context.Context) {
	bin := "bin/kubectl --kubeconfig " + d.cluster.AdminKubeconfig()
	fmt.Printf(`
The cluster goes on, end it with Ctrl-C. In another terminal:

  alias k='%s'
  k get nodehealthchecks,nodes
  k describe nodehealthcheck workers
  k label node worker-5 %s-      # worker-5 falls silent
  k get powercycleremediations -A --watch
  tail -f %s
`, bin, localkube.HeartbeatLabel, d.controller.LogPath())
	<-ctx.Done()
}

// stepTimeout is how long a step may take. Machines are slow at times; none of the
// steps takes longer than half a minute by itself.
const stepTimeout = 3 * time.Minute
