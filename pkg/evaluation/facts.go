// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Facts is what decisions read of a Node, besides its conditions, its Machines, its age and
// its selection. A change of it starts a sync (spec 21.1).
type Facts struct {
	UID              types.UID
	ControlPlane     bool
	Etcd             remediation.EtcdLabel
	Excluded         bool // Spec 15.1.
	ExclusionIgnored bool // Spec 15.2.
	Labelled         bool // With any value of that label.
	ConfirmedHealthy bool // Spec 16.6.
	Reconfiguring    bool // Spec 10.2.
}

// FactsOf returns the facts of a Node, and none if there is none.
func FactsOf(node *corev1.Node) Facts {
	if node == nil {
		return Facts{}
	}
	exclusion, labelled := node.Labels[v1alpha1.LabelExclude]
	_, confirmed := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	return Facts{
		UID: node.UID, ControlPlane: remediation.IsControlPlane(node.Labels), Etcd: remediation.EtcdLabelOf(node.Labels),
		Excluded: exclusion == "true", ExclusionIgnored: labelled && exclusion == "", Labelled: labelled,
		ConfirmedHealthy: confirmed, Reconfiguring: remediation.Reconfiguring(node.Annotations),
	}
}

// ConstraintsOf returns the constraints of one node: from its Node, its selection, and the health
// check of its Machine that claims it. The Node is nil if there is none.
func ConstraintsOf(node *corev1.Node, facts *Facts, selected bool, machineClaim string) remediation.NodeConstraints {
	if node == nil {
		return remediation.NodeConstraints{NodeDeleted: true}
	}
	return remediation.NodeConstraints{Excluded: facts.Excluded, Unselected: !selected, MachineClaim: machineClaim}
}

// NewNode returns what a Node says about itself. The Node is nil if there is none.
func NewNode(name string, node *corev1.Node, selected bool, machineClaim string) remediation.Node {
	facts := FactsOf(node)
	known := remediation.Node{Name: name}
	known.Constraints.NodeConstraints = ConstraintsOf(node, &facts, selected, machineClaim)
	if node != nil {
		known.UID, known.Created, known.ResourceVersion = facts.UID, node.CreationTimestamp.Time, node.ResourceVersion
		known.ControlPlane, known.ConfirmedHealthy, known.ExclusionIgnored = facts.ControlPlane, facts.ConfirmedHealthy, facts.ExclusionIgnored
	}
	return known
}
