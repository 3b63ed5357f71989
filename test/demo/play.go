// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

const (
	workers = 10
	victim  = "worker-3"
	nhcName = "workers"
)

// play plays the story. Each step waits until what it is about can be seen through
// the API.
func (d *demo) play(ctx context.Context) error {
	fmt.Printf("Creating %d nodes that send heartbeats, and NodeHealthCheck %s\n\n", workers, nhcName)
	if err := d.createNodes(ctx); err != nil {
		return err
	}
	if err := d.await(ctx, "all nodes are Ready", func() bool { return d.timeline.ready() == workers }); err != nil {
		return err
	}
	if err := d.apply(ctx, remediator.NodeHealthCheckManifest); err != nil {
		return err
	}
	enabled := func() bool {
		status := d.timeline.status()
		return status.Phase == v1alpha1.PhaseEnabled && number(status.ObservedNodes) == workers && number(status.HealthyNodes) == workers
	}
	if err := d.await(ctx, "the NodeHealthCheck says Enabled, with all nodes healthy", enabled); err != nil {
		return err
	}
	if err := d.silence(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		seen func() bool
	}{
		{"Kubernetes marks " + victim + " as not Ready", func() bool { return d.timeline.readiness(victim) == corev1.ConditionUnknown }},
		{"the controller creates a remediation", d.timeline.remediated},
		{"the NodeHealthCheck says Remediating", func() bool { return d.timeline.phaseSeen(v1alpha1.PhaseRemediating) }},
		{"the events tell of it", func() bool { return d.timeline.told("DetectedUnhealthy", "RemediationCreated") }},
		{"the remediator repairs " + victim, func() bool { return d.timeline.readiness(victim) == corev1.ConditionTrue }},
		{"the remediation is gone", func() bool { return !d.timeline.remediating() }},
		{"the NodeHealthCheck says Enabled again, with all nodes healthy", enabled},
		{"the events tell of the end", func() bool { return d.timeline.told("RemediationRemoved") }},
	} {
		if err := d.await(ctx, step.what, step.seen); err != nil {
			return err
		}
	}
	if err := d.show(ctx, "get", "nodehealthchecks"); err != nil {
		return err
	}
	if err := d.show(ctx, "get", "nodehealthcheck", "workers", "-o", "jsonpath="+history); err != nil {
		return err
	}
	fmt.Println("\nThe node failed, was found, repaired and released. Done.")
	return nil
}

// history shows the episodes that status has.
const history = `{range .status.remediationHistory[*]}` +
	`{.node}: {.outcome}{"\n"}` +
	`  trigger   {.trigger.type}={.trigger.status} ({.trigger.reason}){"\n"}` +
	`  detected  {.detected}{"\n"}` +
	`  started   {.started}{"\n"}` +
	`  fenced    {.fenced}{"\n"}` +
	`  finished  {.finished}{"\n"}` +
	`  released  {.released}{"\n"}` +
	`{range .steps[*]}  step      {.kind} of {.templateName}, {.started} to {.ended}: {.result}{"\n"}{end}{end}`

// show runs kubectl as a user would.
func (d *demo) show(ctx context.Context, args ...string) error {
	output, err := d.cluster.Kubectl(ctx, args...)
	if err != nil {
		return err
	}
	command := strings.Join(args[:len(args)-1], " ")
	if last := args[len(args)-1]; strings.Contains(last, "{") {
		command += " '" + last + "'"
	} else {
		command += " " + last
	}
	fmt.Printf("\n$ kubectl %s\n%s", command, output)
	return nil
}

func number(n *int32) int {
	if n == nil {
		return -1
	}
	return int(*n)
}

// await waits until something can be seen.
func (d *demo) await(ctx context.Context, what string, seen func() bool) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, stepTimeout, true, func(context.Context) (bool, error) {
		select {
		case <-d.controller.Exited():
			return false, fmt.Errorf("the controller has exited")
		default:
			return seen(), nil
		}
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

func (d *demo) createNodes(ctx context.Context) error {
	for i := range workers {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("worker-%d", i),
			Labels: map[string]string{
				"node-role.kubernetes.io/worker": "",
				localkube.HeartbeatLabel:         localkube.HeartbeatValue,
			},
		}}
		if _, err := d.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a node: %w", err)
		}
	}
	return nil
}

// silence stops the heartbeats of the victim, and nothing else.
func (d *demo) silence(ctx context.Context) error {
	d.timeline.say("demo", victim+" stops sending heartbeats")
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{localkube.HeartbeatLabel: nil}}})
	if err != nil {
		return err
	}
	if _, err := d.kube.CoreV1().Nodes().Patch(ctx, victim, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("silencing %s: %w", victim, err)
	}
	return nil
}
