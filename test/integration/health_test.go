// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// conditions changes the unhealthyConditions of a spec.
func conditions(unhealthy ...v1alpha1.UnhealthyCondition) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.UnhealthyConditions = unhealthy }
}

func unhealthy(conditionType corev1.NodeConditionType, status corev1.ConditionStatus, duration time.Duration) v1alpha1.UnhealthyCondition {
	return v1alpha1.UnhealthyCondition{Type: conditionType, Status: status, Duration: metav1.Duration{Duration: duration}}
}

// heartbeat writes condition Ready as a kubelet does: with another heartbeat time,
// reason and message.
func (s *scenario) heartbeat(name string, status corev1.ConditionStatus, since time.Time) {
	s.t.Helper()
	condition := readyCondition(status, since)
	condition.Reason, condition.Message = "Heartbeat", condition.LastHeartbeatTime.String()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	require.NoError(s.t, err)
	_, err = s.kube.CoreV1().Nodes().Patch(s.t.Context(), s.node(name), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(s.t, err)
}
