// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// hold is the finalizer of a remediator that has not finished.
const hold = "test.nhc-controller.io/hold"

// TestRecoveryWithFinalizer: until the CR of a healthy node is gone, the node stays
// listed and does not count as healthy (spec 7.6, 16.1 to 16.3).
func TestRecoveryWithFinalizer(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	cr := s.eventuallyCR("a")
	require.Nil(t, s.entry("a").ConditionsHealthyTimestamp)
	s.setFinalizers("a", hold)

	s.heal("a")
	s.eventuallyDeleting("a")
	s.eventually("conditionsHealthyTimestamp", func() bool { return s.entry("a").ConditionsHealthyTimestamp != nil })
	healthySince := s.entry("a").ConditionsHealthyTimestamp
	require.False(t, healthySince.Time.Before(s.transition("a")), "16.4: when it was first seen healthy")
	waits := func() {
		s.pass(healthySince.Time)
		s.catchUp()
		s.requireOnly("a", cr)
		require.Equal(t, healthySince, s.entry("a").ConditionsHealthyTimestamp, "16.2")
		require.Nil(t, s.entry("a").HealthyDelayed, "16.4: true or absent")
		s.eventuallyCounts(2, 1)
		require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase, "16.2")
		require.Equal(t, "NHC is remediating 1 nodes", s.status().Reason)
	}
	waits()
	s.report("a", [2]string{v1alpha1.RemediationSucceeded, "True"})
	s.annotateCR("a", map[string]any{"test.nhc-controller.io/noise": "1"})
	waits()
	require.NotContains(t, s.cr("a").GetAnnotations(), v1alpha1.AnnotationTimedOut, "13.8: the node is healthy")
	s.requireRequests("delete", "a", 1, "16.1: a CR being deleted gets no further request")

	s.setFinalizers("a")
	s.eventuallyCounts(2, 2)
	require.Empty(t, s.listed(), "16.3")
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase, "16.3")
	require.Nil(t, s.cr("a"))
	s.catchUp()
	s.requireEvents("Node", s.node("a"), "RemediationRemoved", 1, "16.1: once")
	s.requireRequests("create", "a", 1)
}

// TestUnhealthyAgainDuringDeletion: the controller tells the remediator of a CR that is
// being deleted to give up, and waits for its end (spec P9, 11.6, 13.8).
func TestUnhealthyAgainDuringDeletion(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	first := s.eventuallyCR("a")
	s.setFinalizers("a", hold)
	s.heal("a")
	s.eventuallyDeleting("a")
	s.eventually("conditionsHealthyTimestamp", func() bool { return s.entry("a").ConditionsHealthyTimestamp != nil })

	s.fail("a")
	marked := s.eventuallyTimedOut("a")
	require.Equal(t, first.GetUID(), marked.GetUID())
	s.catchUp()
	require.Nil(t, s.entry("a").ConditionsHealthyTimestamp, "P11: it is not healthy any more")
	s.requireOnly("a", first)
	require.Equal(t, marked.GetResourceVersion(), s.cr("a").GetResourceVersion(), "13.8: written once")
	s.requireRequests("create", "a", 1, "P9: nothing begins before the old one is gone")
	s.requireRequests("patch", "a", 1, "13.8")

	s.setFinalizers("a")
	s.eventually("a new CR", func() bool { cr := s.cr("a"); return cr != nil && cr.GetUID() != first.GetUID() })
	second := s.eventuallyCR("a")
	s.requireOnly("a", second)
	require.NotContains(t, second.GetAnnotations(), v1alpha1.AnnotationTimedOut)
	require.Nil(t, second.GetDeletionTimestamp())
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(2, 2)
	s.requireRequests("create", "a", 2)
	s.requireRequests("delete", "a", 2)
	s.requireEvents("Node", s.node("a"), "DetectedUnhealthy", 1, "19.1: the episode did not end in between")
	s.requireEvents("Node", s.node("a"), "RemediationCreated", 2)
	s.requireEvents("Node", s.node("a"), "RemediationRemoved", 2)
}
