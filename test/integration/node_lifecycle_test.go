// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestSilentKubelet: what other tests write into Nodes, here the node lifecycle controller writes, because a simulated
// kubelet is silent. Its node is remediated, and is healthy once the kubelet speaks again.
func TestSilentKubelet(t *testing.T) {
	t.Parallel()
	c, err := startCluster(t.Context(), localkube.Options{NodeLifecycle: true, Kubelets: true, AuditUsers: []string{deploy.User}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.stop()) })
	c.begin = time.Now()
	c.startController(t, "lifecycle")
	s := newScenario(t, c)
	s.createNodes("a", "b", "c")
	for _, name := range []string{"a", "b", "c"} {
		s.patchNode(name, "labels", map[string]any{localkube.HeartbeatLabel: localkube.HeartbeatValue})
	}
	s.createNHC()
	s.eventuallyCounts(3, 3)

	s.patchNode("a", "labels", map[string]any{localkube.HeartbeatLabel: nil})
	s.eventuallyCR("a")
	node := s.nodeObject("a")
	ready := slices.IndexFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown && condition.Reason == "NodeStatusUnknown"
	})
	require.GreaterOrEqual(t, ready, 0, node.Status.Conditions)
	unreachable := func() bool {
		return slices.ContainsFunc(s.nodeObject("a").Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeUnreachable })
	}
	s.eventually("the taint of a node that is silent", unreachable)
	s.eventuallyCounts(3, 2)

	s.patchNode("a", "labels", map[string]any{localkube.HeartbeatLabel: localkube.HeartbeatValue})
	s.eventuallyNoCR("a")
	s.eventuallyCounts(3, 3)
	s.eventually("the end of the taint", func() bool { return !unreachable() })
}
