// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReporters: neither a clock of others that is wrong nor a time that moves hastens or delays a
// remediation (spec 7.2).
func TestReporters(t *testing.T) {
	t.Parallel()
	const duration = 6 * time.Second
	begin := func(t *testing.T) *scenario {
		t.Helper()
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a", "b")
		s.createNHC(conditions(
			unhealthy(corev1.NodeReady, corev1.ConditionUnknown, duration), unhealthy(corev1.NodeReady, corev1.ConditionFalse, duration)))
		s.eventuallyCounts(2, 2)
		return s
	}
	// soon waits until the controller has seen a condition that matches.
	soon := func(s *scenario) { s.eventuallyCounts(2, 1) }
	// created returns when the CR was created. It has whole seconds.
	created := func(s *scenario) time.Time { return s.eventuallyCR("a").GetCreationTimestamp().Time }

	t.Run("7.2 a board without a clock boots (FR-315)", func(t *testing.T) {
		s := begin(t)
		s.fail("a")
		soon(s)
		booted := time.Now().Truncate(time.Second)
		s.setCondition("a", corev1.NodeReady, corev1.ConditionFalse, time.Now().Add(-20*time.Minute))
		require.False(t, created(s).Before(booted.Add(duration)), "not before it has lasted since it was seen")
		require.False(t, s.entry("a").Detected.Time.Before(booted.Add(-duration)), "status says the same")
	})
	t.Run("7.2 a clock is ahead (FR-316)", func(t *testing.T) {
		s := begin(t)
		failed := time.Now().Truncate(time.Second)
		s.setCondition("a", corev1.NodeReady, corev1.ConditionFalse, time.Now().Add(time.Hour))
		require.False(t, created(s).Before(failed.Add(duration)))
	})
	t.Run("7.2 the time moves with each heartbeat (FR-317)", func(t *testing.T) {
		s := begin(t)
		failed := time.Now().Truncate(time.Second)
		s.eventually("a CR in spite of times that move", func() bool {
			s.setCondition("a", corev1.NodeReady, corev1.ConditionFalse, time.Now())
			return s.cr("a") != nil
		})
		require.False(t, created(s).Before(failed.Add(duration)))
	})
	t.Run("7.2 a Node is restored with its old status (FR-314)", func(t *testing.T) {
		s := begin(t)
		s.fail("a")
		created(s)
		node := s.nodeObject("a")
		node.ObjectMeta = metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}
		require.NoError(t, s.kube.CoreV1().Nodes().Delete(t.Context(), node.Name, metav1.DeleteOptions{}))
		s.eventuallyNoCR("a")
		s.eventually("the Node is gone", func() bool {
			_, err := s.kube.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		restored, err := s.kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err)
		require.False(t, created(s).Before(restored.CreationTimestamp.Add(duration)), "nothing lasts longer than the Node")
	})
}
