// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// A CR of any owner takes the control plane slot if it carries the control plane label, or is for
// a control plane node. It keeps the slot until it is gone, also while it is being deleted and
// when its Node is gone: a remediator may delete the Node while the host is off (spec 12.2).
func (c *Controller) keepsSlot(cr *object.CR) bool {
	return cr.ControlPlane() || c.NodeCache.HasControlPlane(cr.Node())
}

// observeControlPlane adds the limits of control plane nodes, if the snapshot has such a
// node.
func (c *Controller) observeControlPlane(s *snapshot) {
	if !slices.ContainsFunc(s.nodes, func(node remediation.Node) bool { return node.ControlPlane && len(node.Own) == 0 }) {
		return
	}
	s.controlPlane = c.controlPlaneRemediations()
	c.observeControlPlaneMachines(s)
	if _, err := c.platform.Mapping(remediation.ClusterVersionKind); meta.IsNoMatchError(err) {
		s.controlPlane.Members = c.controlPlaneNodes() // Elsewhere, preflight asks etcd.
	}
}

// observeControlPlaneMachines adds the control plane Machines that take the slot, and what status says of those that wait.
func (c *Controller) observeControlPlaneMachines(s *snapshot) {
	s.controlPlane.SlotHolders, s.controlPlane.Told = map[string][]string{}, map[string]string{}
	for i := range s.nodes {
		if node := &s.nodes[i]; node.ControlPlane && len(node.Own) == 0 {
			if entry := s.listed[i]; entry != nil && entry.Decision != nil && entry.Decision.Reason == v1alpha1.DecidedControlPlaneBusy {
				s.controlPlane.Told[node.Name] = entry.Decision.Message
			}
			s.controlPlane.SlotHolders[node.Name] = c.machineHealthChecks.ControlPlaneSlotHolders(slot.Member{Node: node.Name})
		}
	}
}

// controlPlaneRemediations returns the nodes whose CRs take the slot, as the caches show it. While any kind cannot be
// read, there may be others.
func (c *Controller) controlPlaneRemediations() slot.ControlPlane {
	found := slot.ControlPlane{Unknown: cmp.Or(c.Remediations.Ready(), c.Remediations.AnyUnread()) != nil}
	for _, indexer := range c.Remediations.Caches() {
		found.Remediated = append(found.Remediated, c.slotTakenInCache(indexer)...)
	}
	return found
}

// slotTakenInCache returns the nodes of CRs in a cache that take the slot.
func (c *Controller) slotTakenInCache(indexer cache.Indexer) (nodes []string) {
	for _, cr := range watches.Indexed[*object.CR](indexer, byControlPlane, labelledControlPlane) {
		nodes = append(nodes, cr.Node())
	}
	for _, member := range c.controlPlaneNodes() {
		if len(watches.Indexed[*object.CR](indexer, byNode, member.Name)) > 0 {
			nodes = append(nodes, member.Name)
		}
	}
	return nodes
}

// listOthers returns the names of slot holders that take the slot from a node or a Machine. It lists all
// CRs and the control plane Machines live, because the caches of a new leader may not show what the old one
// has begun. It leaves kinds that are not served or forbidden to controlPlaneRemediations.
func (c *Controller) listOthers(ctx context.Context, subject slot.Member) (others []string, _ error) {
	others, err := c.machineHealthChecks.ListControlPlaneSlotHolders(ctx, subject)
	if err != nil {
		return nil, fmt.Errorf("listing control plane Machines: %w", err)
	}
	for kind := range c.Remediations.Kinds() {
		nodes, err := c.listSlotTaken(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			if !(slot.Member{Node: node}).Same(subject) {
				others = append(others, node)
			}
		}
	}
	return others, nil
}

// listSlotTaken returns the nodes of CRs in a live list of a kind that take the slot.
func (c *Controller) listSlotTaken(ctx context.Context, kind schema.GroupKind) (nodes []string, _ error) {
	err := c.Remediations.ListLive(ctx, kind, func(item *unstructured.Unstructured) {
		if cr := object.ParseCR(item); c.keepsSlot(cr) {
			nodes = append(nodes, cr.Node())
		}
	})
	return nodes, err
}

// controlPlaneNodes returns all control plane nodes.
func (c *Controller) controlPlaneNodes() []*corev1.Node {
	return watches.Indexed[*corev1.Node](c.NodeCache.Indexer, nodesByRole, roleControlPlane)
}

// etcdAllows reports whether etcd can do without a control plane node (spec 12.3). It reads the
// disruption budget live, because the cached one may be out of date. Where OpenShift's API is not
// served, the other control plane nodes decide (spec 12.5). A Machine without a Node has no member
// of etcd.
func (c *Controller) etcdAllows(ctx context.Context, node string) (bool, error) {
	if node == "" {
		return true, nil
	}
	if _, err := c.platform.Mapping(remediation.ClusterVersionKind); meta.IsNoMatchError(err) {
		return c.etcdAllowsByNodes(ctx, node)
	}
	budgets, err := c.Kube.PolicyV1().PodDisruptionBudgets(remediation.EtcdNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("listing disruption budgets of etcd: %w", err)
	}
	pods, err := c.Kube.CoreV1().Pods(remediation.EtcdNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("listing pods of etcd: %w", err)
	}
	return remediation.EtcdAllows(budgets.Items, pods.Items, node), nil
}

// etcdAllowsByNodes reports whether the other control plane nodes make a quorum (spec 12.5). It reads a
// Node live if the cache does not have it: only an existing Node may be Ready. A Node without the label,
// which a control plane Machine may name, counts as member, too.
func (c *Controller) etcdAllowsByNodes(ctx context.Context, name string) (bool, error) {
	node := c.NodeCache.Get(name)
	if node == nil {
		_, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading node: %w", err)
		}
	}
	return c.makeQuorumWithout(name, node), nil
}

// makeQuorumWithout reports whether the other control plane nodes make a quorum. node is the Node as it
// was seen, nil for an unknown one.
func (c *Controller) makeQuorumWithout(name string, node *corev1.Node) bool {
	members := slices.DeleteFunc(c.controlPlaneNodes(), func(member *corev1.Node) bool { return member.Name == name })
	if node != nil {
		members = append(members, node)
	}
	return remediation.QuorumWithout(members, name)
}

// ControlPlaneChanged wakes the NodeHealthChecks that wait, and has the next
// attempt of any health check ask live: the slot may be free.
func (c *Controller) ControlPlaneChanged() {
	c.refusals.Changed()
	c.Wake(c.waiters.all())
}

// ControlPlaneTaken returns the control plane nodes whose remediation objects take the control
// plane slot, as the caches show it, and false if that is not known.
func (c *Controller) ControlPlaneTaken() (nodes []string, known bool) {
	taken := c.controlPlaneRemediations()
	return taken.Remediated, !taken.Unknown
}
