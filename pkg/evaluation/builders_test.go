// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testCheck returns a NodeHealthCheck.
func testCheck(changes ...func(*v1alpha1.NodeHealthCheck)) *v1alpha1.NodeHealthCheck {
	nhc := &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "workers-uid"}}
	for _, change := range changes {
		change(nhc)
	}
	return nhc
}

// failsReady makes a NodeHealthCheck that nodes are unhealthy for that are not ready for a
// minute.
func failsReady(nhc *v1alpha1.NodeHealthCheck) {
	nhc.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False", Duration: metav1.Duration{Duration: time.Minute}}}
}

// testNode returns a Node.
func testNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid")}}
	for _, change := range changes {
		change(node)
	}
	return node
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, key, value) }
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value) }
}

// notReadySince makes a Node not ready.
func notReadySince(since time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "False", LastTransitionTime: metav1.NewTime(since)}}
	}
}

// testCR returns a CR of a node.
func testCR(node string) *object.CR {
	return &object.CR{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "RebootRemediation"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "remediators", Name: node, UID: types.UID(node)},
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
