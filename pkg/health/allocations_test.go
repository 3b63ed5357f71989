// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

var benchTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var usualRules = []v1alpha1.UnhealthyCondition{
	{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Duration: metav1.Duration{Duration: 5 * time.Minute}},
	{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: 5 * time.Minute}},
}

func judgeUsually(node *corev1.Node) Verdict {
	return Judge(usualRules, EvidenceOf(node, nil), benchTime)
}

// summarize judges and counts nodes.
func summarize(nodes []*corev1.Node) Summary {
	summary := NewSummary(len(nodes))
	for _, node := range nodes {
		summary.Add(judgeUsually(node), false)
	}
	return summary
}

// benchNodes returns nodes with the conditions that a kubelet reports, the first ones
// of them not ready.
func benchNodes(n, notReady int) []*corev1.Node {
	nodes := make([]*corev1.Node, 0, n)
	for i := range n {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i)}}
		for _, condition := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable, corev1.NodeReady} {
			status := corev1.ConditionFalse
			if condition == corev1.NodeReady && i >= notReady {
				status = corev1.ConditionTrue
			}
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: condition, Status: status, LastTransitionTime: metav1.NewTime(benchTime.Add(-time.Hour))})
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// TestHealthyNodesCostNoAllocation: Judge, Summary and EvaluateGate allocate nothing for healthy
// nodes.
func TestHealthyNodesCostNoAllocation(t *testing.T) {
	nodes, half := benchNodes(1000, 0), intstr.FromString("50%")
	require.Zero(t, testing.AllocsPerRun(10, func() {
		summary := summarize(nodes)
		EvaluateGate(&half, nil, summary.Observed, summary.Healthy)
	}))
}
