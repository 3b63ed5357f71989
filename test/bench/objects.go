// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

const (
	nhcName        = "bench" // Selects groupMeasured.
	leaseNamespace = "medik8s-leases"
	template       = "power-cycle"

	// unhealthyAfter is the duration in the NodeHealthCheck of Ready Unknown. That of Ready False is 0.
	unhealthyAfter = 2 * time.Second

	// writers is the number of the bench's own requests at a time.
	writers = 32
	// controlNodes are the nodes that only the control reacts to.
	controlNodes = 20
)

// watch follows remediations, leases and the status until the environment ends.
func (e *environment) watch(ctx context.Context) error {
	ctx, e.stopWatching = context.WithCancel(ctx)
	crs := e.admin.dynamic.Resource(remediator.Resource)
	leases := e.admin.kube.CoordinationV1().Leases(leaseNamespace)
	nhcs := e.admin.nhc.RemediationV1alpha1().NodeHealthChecks()
	for what, source := range map[string]struct {
		list  func(context.Context, metav1.ListOptions) (metav1.ListInterface, error)
		watch watchFunc
		see   func(watch.Event)
	}{
		"remediations": {func(ctx context.Context, o metav1.ListOptions) (metav1.ListInterface, error) { return crs.List(ctx, o) }, crs.Watch, e.tracker.onCR},
		"leases": {func(ctx context.Context, o metav1.ListOptions) (metav1.ListInterface, error) {
			return leases.List(ctx, o)
		}, leases.Watch, e.tracker.onLease},
		"NodeHealthChecks": {func(ctx context.Context, o metav1.ListOptions) (metav1.ListInterface, error) {
			return nhcs.List(ctx, o)
		}, nhcs.Watch, e.tracker.onNHC},
	} {
		watcher, err := watchFrom(ctx, source.list, source.watch)
		if err != nil {
			return fmt.Errorf("watching %s: %w", what, err)
		}
		e.watching.Go(func() { e.tracker.follow(ctx, what, watcher, source.see) })
	}
	return nil
}

func (e *environment) createNodes(ctx context.Context) error {
	begin := time.Now()
	err := sideBySide(ctx, e.nodes+controlNodes, writers, func(ctx context.Context, i int) error {
		if i < e.nodes {
			return e.createNode(ctx, nodeName(i), groupMeasured, i)
		}
		return e.createNode(ctx, controlName(i-e.nodes), groupControl, i)
	})
	if err == nil {
		e.logf("%d nodes were created in %.1f s", e.nodes+controlNodes, time.Since(begin).Seconds())
	}
	return err
}

// createNode creates a healthy node and the lease of its kubelet.
func (e *environment) createNode(ctx context.Context, name, group string, i int) error {
	if _, err := e.kubelet.kube.CoreV1().Nodes().Create(ctx, newNode(name, group, i, time.Now()), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a node: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new(name), LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NowMicro()),
	}}
	if _, err := e.kubelet.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the lease of a kubelet: %w", err)
	}
	return nil
}

func (e *environment) createMeasuredNHC(ctx context.Context) error {
	return e.createNHC(ctx, nhcName, groupMeasured)
}

// createNHC creates a NodeHealthCheck for a group of nodes. Its gate is always open.
func (e *environment) createNHC(ctx context.Context, name, group string) error {
	after := metav1.Duration{Duration: unhealthyAfter}
	nhc := &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector:   metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: group}},
			MinHealthy: new(intstr.FromInt32(0)),
			UnhealthyConditions: []v1alpha1.UnhealthyCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: after},
			},
			RemediationTemplate: &corev1.ObjectReference{
				APIVersion: remediator.Resource.GroupVersion().String(), Kind: "PowerCycleRemediationTemplate",
				Namespace: metav1.NamespaceDefault, Name: template,
			},
		},
	}
	if _, err := e.admin.nhc.RemediationV1alpha1().NodeHealthChecks().Create(ctx, nhc, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the NodeHealthCheck: %w", err)
	}
	return nil
}

func (e *environment) patchStatus(ctx context.Context, by *clients, node string, patch []byte) error {
	_, err := by.kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patching the status of node %s: %w", node, err)
	}
	return nil
}
