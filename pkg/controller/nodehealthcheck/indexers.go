// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// The indexes of the caches of CRs: by the NodeHealthChecks that own them, by the
// node they are for, and by the control plane label.
const (
	byOwner        = "owner"
	byNode         = "node"
	byControlPlane = "controlPlane"

	labelledControlPlane = "true"
)

var crIndexers = cache.Indexers{
	byOwner: func(obj any) ([]string, error) { return obj.(*object.CR).Owners(), nil },
	byNode:  func(obj any) ([]string, error) { return []string{obj.(*object.CR).Node()}, nil },
	byControlPlane: func(obj any) ([]string, error) {
		if obj.(*object.CR).ControlPlane() {
			return []string{labelledControlPlane}, nil
		}
		return nil, nil
	},
}

// The indexes of the cache of Nodes: those of the control plane, and those with the
// annotation that confirms that they are healthy.
const (
	nodesByRole      = "role"
	roleControlPlane = "control-plane"

	nodesConfirmedHealthy = "confirmedHealthy"
	confirmedHealthy      = "true"
)

var nodeIndexers = cache.Indexers{
	nodesByRole: func(obj any) ([]string, error) {
		if node, ok := obj.(*corev1.Node); ok && remediation.IsControlPlane(node.Labels) {
			return []string{roleControlPlane}, nil
		}
		return nil, nil
	},
	nodesConfirmedHealthy: func(obj any) ([]string, error) {
		if node, ok := obj.(*corev1.Node); ok {
			if _, confirmed := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]; confirmed {
				return []string{confirmedHealthy}, nil
			}
		}
		return nil, nil
	},
}

// hasCR reports whether a cache shows a CR for the node, of any owner.
func (c *Controller) hasCR(node string) bool {
	for _, indexer := range c.Remediations.Caches() {
		if keys, _ := indexer.IndexKeys(byNode, node); len(keys) > 0 { // The index exists: crIndexers has it.
			return true
		}
	}
	return false
}

// remediatingNode returns the NodeHealthChecks that own a CR for the node.
func (c *Controller) remediatingNode(node string) []string {
	var owners []string
	for _, indexer := range c.Remediations.Caches() {
		for _, cr := range watches.Indexed[*object.CR](indexer, byNode, node) {
			owners = append(owners, cr.Owners()...)
		}
	}
	return owners
}
