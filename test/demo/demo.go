// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// stepTimeout is how long a step may take. Machines are slow at times; none of the
// steps takes longer than half a minute by itself.
const stepTimeout = 3 * time.Minute

// demo is the running cluster with everything in it.
type demo struct {
	*deploy.Cluster

	controller *localkube.Process
	timeline   *timeline
}

// run plays a scenario in a cluster of its own.
func run(ctx context.Context, s scenario) (err error) {
	fmt.Println("Starting etcd, kube-apiserver, controllers of Kubernetes and simulated nodes")
	cluster, err := localkube.Start(ctx, s.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	connected, err := deploy.Connect(cluster)
	if err != nil {
		return err
	}
	d := &demo{Cluster: connected}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	defer cancel()

	p := s.start(d)
	if err := p.install(ctx); err != nil {
		return err
	}
	fmt.Println("Starting the controller as ServiceAccount nhc-system/nhc-controller")
	d.controller, err = deploy.Start(ctx, cluster, deploy.Controller{Name: "nhc-controller", Args: []string{"-v=4"}})
	if err != nil {
		return err
	}
	d.timeline = newTimeline()
	wg.Go(func() {
		if err := p.simulate(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "simulating the rest of the cluster:", err)
		}
	})
	wg.Go(func() { d.timeline.watch(ctx, p.watches()) })
	if err := p.run(ctx); err != nil {
		return fmt.Errorf("%w\nlast lines of the controller's log:\n%s", err, d.controller.LogTail())
	}
	if os.Getenv("KEEP") != "" {
		return d.keep(ctx, p.hints())
	}
	return nil
}

func (d *demo) apply(ctx context.Context, manifest string) error {
	_, err := d.KubectlInput(ctx, strings.NewReader(manifest), "apply", "-f", "-")
	return err
}

// show runs kubectl as a user would.
func (d *demo) show(ctx context.Context, args ...string) error {
	output, err := d.Kubectl(ctx, args...)
	if err != nil {
		return err
	}
	fmt.Printf("\n$ %s\n%s", commandLine(args), output)
	return nil
}

// commandLine returns what a user would type to run kubectl with these arguments.
func commandLine(args []string) string {
	line := []string{"kubectl"}
	for _, arg := range args {
		if strings.ContainsAny(arg, "{} \"*") {
			arg = "'" + arg + "'"
		}
		line = append(line, arg)
	}
	return strings.Join(line, " ")
}

// step is something that has to happen.
type step struct {
	what string
	seen func() bool
}

// await waits until each of the steps can be seen, one after the other. The lock of
// the timeline is held while they look.
func (d *demo) await(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, stepTimeout, true, func(context.Context) (bool, error) {
			select {
			case <-d.controller.Exited():
				return false, fmt.Errorf("the controller has exited")
			default:
				return d.timeline.seen(s.seen), nil
			}
		})
		if err != nil {
			return fmt.Errorf("waiting until %s: %w", s.what, err)
		}
	}
	return nil
}
