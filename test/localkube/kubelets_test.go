// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReport: heartbeats are no transitions, a return is one, and conditions of others stay.
func TestReport(t *testing.T) {
	t.Parallel()
	born := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	other := corev1.NodeCondition{Type: "Other", Status: corev1.ConditionTrue}
	status := &corev1.NodeStatus{Conditions: []corev1.NodeCondition{other}}
	require.True(t, report(status, born))
	require.Len(t, status.Conditions, len(healthyConditions)+1)
	require.Equal(t, other, status.Conditions[len(healthyConditions)])
	require.False(t, report(status.DeepCopy(), metav1.NewTime(born.Add(renewPeriod))), "too early")

	beat := metav1.NewTime(born.Add(reportPeriod))
	require.True(t, report(status, beat))
	for _, condition := range status.Conditions[:len(healthyConditions)] {
		require.Equal(t, beat, condition.LastHeartbeatTime)
		require.Equal(t, born, condition.LastTransitionTime)
	}

	ready := &status.Conditions[len(healthyConditions)-1]
	require.Equal(t, corev1.NodeReady, ready.Type)
	ready.Status = corev1.ConditionUnknown
	back := metav1.NewTime(beat.Add(time.Second))
	require.True(t, report(status, back))
	ready = &status.Conditions[len(healthyConditions)-1]
	require.Equal(t, corev1.ConditionTrue, ready.Status)
	require.Equal(t, back, ready.LastTransitionTime)
	require.Equal(t, born, status.Conditions[0].LastTransitionTime)
}
