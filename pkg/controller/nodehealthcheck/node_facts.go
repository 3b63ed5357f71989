// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// nodeFacts is what decisions read of a Node besides its conditions, its Machines and whether
// it is selected. A change of it starts a sync (spec 21.1). What reads an annotation needs it
// among keptAnnotations as well.
type nodeFacts struct {
	uid              types.UID
	controlPlane     bool
	excluded         bool // Spec 15.1.
	exclusionIgnored bool // Spec 15.2.
	labelled         bool // With any value of that label.
	confirmedHealthy bool // Spec 16.6.
}

// factsOf returns the facts of a Node, and none if there is none.
func factsOf(node *corev1.Node) nodeFacts {
	if node == nil {
		return nodeFacts{}
	}
	exclusion, labelled := node.Labels[v1alpha1.LabelExclude]
	return nodeFacts{
		uid: node.UID, controlPlane: isControlPlane(node),
		excluded: exclusion == "true", exclusionIgnored: labelled && exclusion == "", labelled: labelled,
		confirmedHealthy: hasKey(node.Annotations, v1alpha1.AnnotationManuallyConfirmedHealthy),
	}
}

// keptAnnotations are the annotations of Nodes that the cache has (TrimNode).
var keptAnnotations = []string{
	v1alpha1.AnnotationManuallyConfirmedHealthy,
	remediation.AnnotationOpenShiftMachine,
	remediation.AnnotationClusterAPIMachine,
	remediation.AnnotationClusterAPINamespace,
	remediation.AnnotationClusterAPIName,
	remediation.AnnotationCurrentConfig,
	remediation.AnnotationDesiredConfig,
}

// nodeMatters reports whether a Node has changed in a way that may change a decision about
// it, other than whether it is selected (spec 21.1).
func nodeMatters(old, node *corev1.Node) bool {
	return factsOf(old) != factsOf(node) || !health.SameConditions(old.Status.Conditions, node.Status.Conditions)
}

// constraintsOf returns what constrains a node alone, as its Node says, whether it is selected,
// and the MachineHealthCheck that it belongs to. The Node is nil if there is none.
func constraintsOf(node *corev1.Node, facts *nodeFacts, selected bool, machineHealthCheck string) remediation.NodeConstraints {
	if node == nil {
		return remediation.NodeConstraints{NodeDeleted: true}
	}
	return remediation.NodeConstraints{Excluded: facts.excluded, Unselected: !selected, MachineHealthCheck: machineHealthCheck}
}

// selects reports whether the selector matches a Node.
func (s *snapshot) selects(node *corev1.Node) bool {
	return node != nil && s.selector.Matches(labelSet(node))
}

// isControlPlane reports whether the node has a control plane label (spec 12.1).
func isControlPlane(node *corev1.Node) bool { return remediation.IsControlPlane(node.Labels) }

func hasKey(m map[string]string, key string) bool {
	_, present := m[key]
	return present
}
