// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// conditions changes the unhealthyConditions of a spec.
func conditions(unhealthy ...v1alpha1.UnhealthyCondition) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.UnhealthyConditions = unhealthy }
}

func unhealthy(conditionType corev1.NodeConditionType, status corev1.ConditionStatus, duration time.Duration) v1alpha1.UnhealthyCondition {
	return v1alpha1.UnhealthyCondition{Type: conditionType, Status: status, Duration: metav1.Duration{Duration: duration}}
}

// TestHealth: a condition that has expired counts, whatever another one does, and one that is older than the Node has
// not lasted for longer than the Node (spec 7.2, 7.3, 7.5). TestJudge and TestSince have the other cases.
func TestHealth(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c")
	s.createNHC(conditions(
		unhealthy(corev1.NodeReady, corev1.ConditionFalse, 0), unhealthy(corev1.NodeDiskPressure, corev1.ConditionTrue, 0),
		unhealthy(corev1.NodeNetworkUnavailable, corev1.ConditionTrue, 24*time.Hour),
	))
	s.eventuallyCounts(3, 3)
	s.setCondition("b", corev1.NodeNetworkUnavailable, corev1.ConditionTrue, time.Now().Add(-25*time.Hour))
	s.setCondition("a", corev1.NodeNetworkUnavailable, corev1.ConditionTrue, time.Now())
	s.fail("c") // Matches nothing here.
	s.eventuallyCounts(3, 1)
	require.Empty(t, s.listed(), "7.5, 18.4")
	s.setCondition("a", corev1.NodeDiskPressure, corev1.ConditionTrue, time.Now())
	s.eventuallyCR("a")
	s.eventuallyEvent("DetectedUnhealthy", fmt.Sprintf("Node matches unhealthy condition. Node %q, condition type \"DiskPressure\", condition status \"True\"", s.node("a")))
	s.catchUpNodes()
	s.eventuallyCounts(3, 1)
	require.Equal(t, map[string]int{"a": 1}, s.listed(), "7.5, 18.4")
	s.requireRequests("create", "a", 1)
}

// TestHeartbeats: what changes all the time and means nothing has no effect: it
// neither delays an expiry nor causes a write (spec 7.2, 18.2, 21.1, P3).
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	const duration = 5 * time.Second
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC(conditions(unhealthy(corev1.NodeReady, corev1.ConditionUnknown, duration), unhealthy(corev1.NodeReady, corev1.ConditionFalse, 0)))
	s.eventuallyCounts(2, 2)
	s.fail("a")
	since := s.transition("a")
	s.eventually("a CR in spite of heartbeats", func() bool {
		s.heartbeat("a", corev1.ConditionUnknown, since)
		return s.cr("a") != nil
	})
	cr := s.eventuallyCR("a")
	require.False(t, cr.GetCreationTimestamp().Time.Before(since.Add(duration)), "7.2: counted from lastTransitionTime")
	s.catchUp()
	begin := time.Now()
	for range 20 {
		s.heartbeat("a", corev1.ConditionUnknown, since)
		s.heartbeat("b", corev1.ConditionTrue, s.transition("b"))
	}
	// A sync without any news, in another second than the last one.
	s.pass(s.status().LastUpdateTime.Time)
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name, metadataPatch("annotations", map[string]any{"other": "1"}))
	s.catchUpNodes() // Which counts one node more, and then one less.
	s.setCondition("b", corev1.NodeReady, corev1.ConditionFalse, time.Now())
	s.eventuallyCR("b")
	// The annotation may have come in between: then one write is a conflict, and repeated.
	conflicts := func() int {
		return len(slices.DeleteFunc(s.statusWrites(begin), func(r localkube.Request) bool { return r.Code != http.StatusConflict }))
	}
	s.eventually("three writes of the status, and the repeated ones", func() bool { return len(s.statusWrites(begin)) >= 3+conflicts() })
	require.LessOrEqual(t, len(s.statusWrites(begin)), 3+conflicts()+s.slowCreates("b"), "P3: only the counts, and what happened to b")
	require.LessOrEqual(t, conflicts(), 1, "P3: the test has changed it once")
	require.Equal(t, cr.GetResourceVersion(), s.cr("a").GetResourceVersion(), "11.2")
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
