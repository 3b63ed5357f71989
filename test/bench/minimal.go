// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// minimalController creates a lease and a remediation for each node that it sees fail, and
// deletes both when it sees the node recover. It keeps no status, and reads no more than the node, if at all.
type minimalController struct {
	by *clients
	// group is the group of nodes that it reacts to, empty for all.
	group string
	// preflight makes it read the node once more before it acts.
	preflight bool

	work   chan *corev1.Node
	failed map[string]bool // As the watch has seen it, by node.
	errors errorCount
}

// runMinimal runs a minimal controller. The arguments are flags. The error is the first one of
// a reaction.
func runMinimal(ctx context.Context, by *clients, args []string) error {
	m := &minimalController{by: by, failed: map[string]bool{}, work: make(chan *corev1.Node, 100_000)} // The watch never waits.
	flags := flag.NewFlagSet(minimal, flag.ContinueOnError)
	flags.StringVar(&m.group, "group", "", "the group of nodes, empty for all")
	flags.BoolVar(&m.preflight, "preflight", false, "read each node once more")
	workers := flags.Int("workers", 1, "the number of nodes to work on at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() {
			for node := range m.work {
				m.errors.add(ctx, m.react(context.WithoutCancel(ctx), node))
			}
		})
	}
	err := m.watch(ctx)
	close(m.work)
	wg.Wait()
	_, failure := m.errors.failure()
	return errors.Join(err, failure)
}

// watch follows all nodes until ctx is done.
func (m *minimalController) watch(ctx context.Context) error {
	nodes := m.by.kube.CoreV1().Nodes()
	list := func(ctx context.Context, o metav1.ListOptions) (metav1.ListInterface, error) {
		return nodes.List(ctx, o)
	}
	watcher, err := watchFrom(ctx, list, nodes.Watch)
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Error {
			return fmt.Errorf("the watch of nodes has failed: %s", describe(event.Object))
		}
		if node, ok := event.Object.(*corev1.Node); ok && event.Type != watch.Bookmark {
			m.saw(node)
		}
	}
	if ctx.Err() == nil {
		return errors.New("the watch of nodes has ended")
	}
	return nil
}

// saw is called for one change after the other.
func (m *minimalController) saw(node *corev1.Node) {
	if m.group != "" && node.Labels[groupLabel] != m.group {
		return
	}
	if failed := !isReady(node); failed != m.failed[node.Name] {
		m.failed[node.Name] = failed
		m.work <- node
	}
}

func (m *minimalController) react(ctx context.Context, node *corev1.Node) error {
	leases := m.by.kube.CoordinationV1().Leases(leaseNamespace)
	crs := m.by.dynamic.Resource(remediator.Resource).Namespace(metav1.NamespaceDefault)
	if m.preflight {
		if _, err := m.by.kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("reading a node: %w", err)
		}
	}
	if isReady(node) {
		if err := crs.Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting a remediation: %w", err)
		}
		if err := leases.Delete(ctx, object.LeaseName(node.Name), metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting a lease: %w", err)
		}
		return nil
	}
	if _, err := leases.Create(ctx, leaseOf(node), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a lease: %w", err)
	}
	if _, err := crs.Create(ctx, remediationOf(node), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a remediation: %w", err)
	}
	return nil
}

func ownerOf(node *corev1.Node) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
}

// leaseOf returns a lease like that of a controller.
func leaseOf(node *corev1.Node) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: object.LeaseName(node.Name), OwnerReferences: ownerOf(node)},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(controlAccount), LeaseDurationSeconds: new(int32(660)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(int32(0)),
		},
	}
}

// remediationOf returns a remediation like that of a controller. Its owner is the
// node, so that no controller takes it for its own.
func remediationOf(node *corev1.Node) *unstructured.Unstructured {
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"offSeconds": int64(3)}}}
	cr.SetAPIVersion(remediator.Resource.GroupVersion().String())
	cr.SetKind("PowerCycleRemediation")
	cr.SetNamespace(metav1.NamespaceDefault)
	cr.SetName(node.Name)
	cr.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: node.Name, v1alpha1.AnnotationTemplateName: template})
	cr.SetLabels(map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf})
	cr.SetOwnerReferences(ownerOf(node))
	return cr
}
