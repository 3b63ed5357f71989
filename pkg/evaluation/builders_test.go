// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// What tests begin with.
var (
	epoch      = objecttest.Epoch
	testCheck  = objecttest.Check
	failsReady = objecttest.FailsReady
	testNode   = objecttest.Node
	labelled   = objecttest.LabelledNode
	annotated  = objecttest.AnnotatedNode
)

// notReadySince makes a Node not ready.
func notReadySince(since time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "False", LastTransitionTime: metav1.NewTime(since)}}
	}
}

// testInput has these nodes, in order of name, all of them selected.
func testInput(nhc *v1alpha1.NodeHealthCheck, nodes ...*corev1.Node) *Input {
	in := &Input{NHC: nhc, Storm: health.StormOf(&nhc.Status), Observed: len(nodes), Objects: nodes}
	for _, node := range nodes {
		in.Nodes = append(in.Nodes, NewNode(node.Name, node, true, ""))
	}
	return in
}
