// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/nodeindex"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

func labelSet(node *corev1.Node) labels.Set { return labels.Set(node.Labels) }

// versionOf returns the version of a NodeHealthCheck as the index of nodes knows it.
func versionOf(nhc *v1alpha1.NodeHealthCheck) nodeindex.Version {
	return nodeindex.Version{Name: nhc.Name, UID: nhc.UID, Generation: nhc.Generation}
}

// checkOf returns the NodeHealthCheck as the index of nodes needs it.
func checkOf(nhc *v1alpha1.NodeHealthCheck) nodeindex.Check {
	selector, rules := selectorOf(nhc), nhc.Spec.UnhealthyConditions
	return nodeindex.Check{
		Version:   versionOf(nhc),
		Selects:   func(node *corev1.Node) bool { return selector.Matches(labelSet(node)) },
		NeedsLook: func(node *corev1.Node) bool { return !health.SurelyHealthy(rules, node.Status.Conditions) },
	}
}

// selectorOf returns the selector of a NodeHealthCheck. An invalid one, stored before
// admission checked it, selects nothing.
func selectorOf(nhc *v1alpha1.NodeHealthCheck) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&nhc.Spec.Selector)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// nodeChanged handles a Node that was created (old is nil) or updated. A heartbeat costs
// no allocation, and does not reach the index.
func (c *Controller) nodeChanged(old, node *corev1.Node) {
	c.Sightings.Observe(old, node)
	matters := old == nil || nodeMatters(old, node)
	if !matters && maps.Equal(old.Labels, node.Labels) {
		return
	}
	c.Wake(c.index.NodeChanged(node.Name, matters))
	c.Budgets.NodeChanged(node.Name)
	if matters {
		c.wakeOthers(node.Name, remediation.IsControlPlane(node.Labels) || (old != nil && remediation.IsControlPlane(old.Labels)))
	}
}

// nodeDeleted handles a Node that was deleted. Its last state may be unknown.
func (c *Controller) nodeDeleted(name string) {
	c.Sightings.Forget(name, c.nodeExists(name))
	c.Wake(c.index.NodeChanged(name, true))
	c.Budgets.NodeChanged(name)
	c.wakeOthers(name, true)
}

// wakeOthers wakes the NodeHealthChecks that a changed node concerns although they may not
// select it: those with a CR for it, and if it may be one of the control plane, those that wait.
func (c *Controller) wakeOthers(name string, controlPlane bool) {
	c.Wake(c.remediatingNode(name))
	if controlPlane {
		c.ControlPlaneChanged()
	}
}
