// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestNeverReported: FR-321 a Node whose kubelet has never reported does not count as healthy, status says so, and nothing
// begins until it has reported (spec 7.6).
func TestNeverReported(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("usual")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node("silent"), Labels: map[string]string{scenarioLabel: s.name}}}
	_, err := s.kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	s.createNHC()
	s.eventuallyCounts(2, 1)
	decision := s.eventuallyDecided("silent", v1alpha1.DecidedSoonUnhealthy)
	require.Contains(t, decision.Message, "has never reported")
	require.Nil(t, decision.NextCheckTime)
	require.Empty(t, s.crs())
	s.heal("silent")
	s.eventuallyCounts(2, 2)
	s.eventuallyNoneListed()
	s.fail("silent")
	s.eventuallyCR("silent")
}
