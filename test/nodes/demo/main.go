// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// demo shows on real nodes what the controller is for: the cable of a node is pulled on which a pod with
// a volume runs. Without the controller the pod is stuck; with it, the pod soon runs elsewhere. It ends
// with both times, and with an error if it was otherwise.
//
//	demo [-check]
//
// With KEEP=1 in the environment the cluster goes on until it is interrupted, with the dashboard of
// bin/kubectl-nhc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/nodes"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

const (
	// patience is how long the demo looks at a pod that is stuck.
	patience = 2 * time.Minute
	// stepTimeout is how long a step may take. Machines are slow at times.
	stepTimeout = 3 * time.Minute

	pod = "db-0"
)

func main() {
	check := flag.Bool("check", false, "only check that this machine has what real nodes need")
	flag.Parse()
	if err := nodes.CheckRequirements(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if *check {
		return
	}
	ctx, stop := signal.NotifyContext(klog.NewContext(context.Background(), klog.Background()), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// demo is a cluster with a database.
type demo struct {
	*nodes.Cluster
	timeline *nodes.Timeline
}

func run(ctx context.Context) (err error) {
	image, err := nodes.ControllerImage()
	if err != nil {
		return err
	}
	fmt.Println("Starting a control plane, and three nodes: kubelets with containerd, each with a disk and a network cable")
	cluster, err := nodes.Start(ctx, nodes.Options{Images: []nodes.Image{image}, Log: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	d := &demo{Cluster: cluster, timeline: nodes.NewTimeline(os.Stdout)}
	if err := d.install(ctx); err != nil {
		return err
	}
	watched, err := d.timeline.Watch(ctx, cluster)
	if err != nil {
		return err
	}
	wg.Go(watched)
	stuck, err := d.without(ctx)
	if err != nil {
		return fmt.Errorf("without the controller: %w", err)
	}
	repairs := &nodes.Remediator{Cluster: cluster, OffFor: 10 * time.Second, Say: func(node, what string) { d.timeline.Say("BMC of "+node, what) }}
	wg.Go(func() { repairs.Run(ctx) })
	took, err := d.with(ctx)
	if err != nil {
		return fmt.Errorf("with the controller: %w", err)
	}
	if err := d.show(ctx, "get", "nodes,nodehealthchecks"); err != nil {
		return err
	}
	fmt.Printf("\nHow long after the failure the pod ran elsewhere, with a grace period of 20 s:\n"+
		"  with the controller     %.0f s\n"+
		"  without it              not after %.0f s: it was still Terminating\n", took.Seconds(), stuck.Seconds())
	if os.Getenv("KEEP") != "" {
		return d.keep(ctx)
	}
	return nil
}

// install installs a database, and the controller, which has nothing to do yet.
func (d *demo) install(ctx context.Context) error {
	fmt.Println("Applying manifests/install.yaml, the manifest of an example remediator, and a StatefulSet with a volume")
	if err := d.InstallController(ctx); err != nil {
		return err
	}
	if err := d.Apply(ctx, nodes.DatabaseManifest); err != nil {
		return err
	}
	_, err := d.Kubectl(ctx, "rollout", "status", "statefulset/db", "--timeout=120s")
	return err
}

// cut pulls the cable of the node of the pod.
func (d *demo) cut(ctx context.Context) (string, error) {
	database, err := d.Kube.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	node := database.Spec.NodeName
	d.timeline.Restart()
	d.timeline.Say("demo", "the cable of node "+node+" is pulled")
	return node, d.Node(node).Cut()
}

// join puts the cable back, and returns when the node is as before.
func (d *demo) join(ctx context.Context, node string) error {
	d.timeline.Say("demo", "the cable of node "+node+" is put back")
	if err := d.Node(node).Join(); err != nil {
		return err
	}
	_, err := d.timeline.Await(ctx, "node "+node+" Ready=True", stepTimeout)
	return err
}

// without shows that the pod is stuck, and returns for how long the demo has looked at it.
func (d *demo) without(ctx context.Context) (time.Duration, error) {
	fmt.Printf("\nFirst without a NodeHealthCheck\n\n")
	begin := time.Now()
	node, err := d.cut(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := d.timeline.Await(ctx, "pod "+pod+" Terminating on "+node, stepTimeout); err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(patience):
	}
	if err := d.show(ctx, "get", "nodes,pods", "--namespace", metav1.NamespaceDefault); err != nil {
		return 0, err
	}
	stuck, err := d.Kube.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if stuck.DeletionTimestamp == nil || stuck.Spec.NodeName != node {
		return 0, errors.New("the pod is not stuck")
	}
	looked := time.Since(begin)
	fmt.Println()
	d.timeline.Say("demo", "the pod is still Terminating, and the demo waits no longer")
	if err := d.join(ctx, node); err != nil {
		return 0, err
	}
	_, err = d.timeline.Await(ctx, "pod "+pod+" runs on", stepTimeout)
	return looked, err
}

// with shows how the pod comes to run elsewhere, and returns how long it took.
func (d *demo) with(ctx context.Context) (time.Duration, error) {
	fmt.Printf("\nNow with NodeHealthCheck %s\n\n", "workers")
	if err := d.Apply(ctx, remediator.NodeHealthCheckManifest); err != nil {
		return 0, err
	}
	if _, err := d.Kubectl(ctx, "wait", "nodehealthcheck/workers", "--for=jsonpath={.status.phase}=Enabled", "--timeout=60s"); err != nil {
		return 0, err
	}
	node, err := d.cut(ctx)
	if err != nil {
		return 0, err
	}
	took, _, err := d.timeline.AwaitOther(ctx, "pod "+pod+" runs on ", node, stepTimeout)
	if err != nil {
		return 0, err
	}
	if _, err := d.timeline.Await(ctx, "BMC of "+node+" has its power back", stepTimeout); err != nil {
		return 0, err
	}
	if err := d.join(ctx, node); err != nil {
		return 0, err
	}
	_, err = d.timeline.Await(ctx, "remediation "+node+" deleted", stepTimeout)
	return took, err
}

// show runs kubectl as a user would.
func (d *demo) show(ctx context.Context, args ...string) error {
	output, err := d.Kubectl(ctx, args...)
	if err != nil {
		return err
	}
	fmt.Printf("\n$ kubectl %s\n%s", strings.Join(args, " "), output)
	return nil
}

// keep tells how to look around, and waits for an interrupt.
func (d *demo) keep(ctx context.Context) error {
	address, wait, err := deploy.StartPluginDashboard(ctx, d.ControlPlane)
	if err != nil {
		return err
	}
	fmt.Printf(`
The cluster goes on, end it with Ctrl-C. Its dashboard, for your browser:

  %s

In another terminal, in this directory and as root, for example to walk through docs/quickstart.md#on-one-machine-without-a-bmc:

  export KUBECONFIG=%s NETWORK=%s PATH="$PWD/bin:$PATH"
  kubectl get nodes,pods -A -o wide
  nsenter --net="$NETWORK" ip link set cable-a down     # a failure of node a, which its BMC repairs
  kubectl nhc status
`, address, d.AdminKubeconfig(), d.Network())
	<-ctx.Done()
	wait() // The same interrupt ends it.
	return nil
}
