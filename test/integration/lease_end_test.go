// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestLeaseOverdue: the only end that a classic remediation has (spec 13.7, 14.7).
func TestLeaseOverdue(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *scenario {
		t.Helper()
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		s.fail("a")
		s.eventuallyCR("a")
		return s
	}
	backDate := func(s *scenario, age time.Duration) *coordinationv1.Lease {
		s.t.Helper()
		return s.patchNodeLeaseSpec("a", map[string]any{"acquireTime": microTime(time.Now().Add(-age).Truncate(time.Second))})
	}
	eventuallyOver := func(s *scenario) {
		s.t.Helper()
		s.eventuallyNoNodeLease("a")
		s.eventually("timedOut in status", func() bool { return s.entry("a").Remediations[0].TimedOut != nil })
	}
	t.Run("14.7-overdue", func(t *testing.T) {
		s := begin(t)
		before := s.cr("a")
		s.reportFailure("a")
		backDate(s, 31*time.Minute)
		eventuallyOver(s)
		cr := s.eventuallyTimedOut("a")
		require.Equal(t, cr.GetAnnotations()[v1alpha1.AnnotationTimedOut], s.entry("a").Remediations[0].TimedOut.UTC().Format(time.RFC3339))
		s.eventuallyEvent("NoTemplateLeft", "Remediation timed out, and no template left to try. didn't find a template to use for NHC "+s.name+" and node "+s.node("a"))
		s.catchUp()
		require.Equal(t, before.GetUID(), s.cr("a").GetUID(), "14.7: the CR stays")
		require.Nil(t, s.cr("a").GetDeletionTimestamp())
		require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
		require.Nil(t, s.nodeLease("a"), "14.7: no new lease")
		require.Len(t, s.leaseRequests("create", "a"), 1, "14.7: no new lease")
		require.Len(t, s.crRequests("patch", "a"), 1, "14.7: no second annotation")
		require.Len(t, s.crRequests("create", "a"), 1)
		require.Len(t, s.events("NoTemplateLeft"), 1)
		s.heal("a")
		s.eventuallyNoCR("a")
		s.eventuallyCounts(1, 1)
		s.fail("a")
		s.eventuallyCR("a")
		s.requireLease(s.nodeLease("a"), "a", 660*time.Second, 0)
	})
	t.Run("P5-release-denied", func(t *testing.T) {
		s := begin(t)
		allow := s.denyLeaseDeletion("a")
		backDate(s, 31*time.Minute)
		s.eventuallyTimedOut("a")
		s.eventually("a denied deletion of the lease", func() bool { return len(s.leaseRequests("delete", "a")) > 0 })
		s.eventually("timedOut in status", func() bool { return s.entry("a").Remediations[0].TimedOut != nil })
		allow()
		s.eventuallyNoNodeLease("a")
		require.Len(t, s.crRequests("patch", "a"), 1)
	})
}

// TestLeaseLost: a remediation that has lost its lease carries on without (spec 14.8,
// 14.9).
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	remove := func(s *scenario) {
		s.t.Helper()
		require.NoError(s.t, s.nodeLeases().Delete(s.t.Context(), s.nodeLeaseName("a"), metav1.DeleteOptions{}))
	}
	take := func(s *scenario) *coordinationv1.Lease {
		s.t.Helper()
		return s.patchNodeLeaseSpec("a", map[string]any{"holderIdentity": "node-maintenance", "leaseDurationSeconds": 3600})
	}
	t.Run("14.8-deleted", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		s.fail("a")
		cr := s.eventuallyCR("a")
		remove(s)
		s.catchUp()
		s.requireOnly("a", cr)
		require.Nil(t, s.nodeLease("a"), "14.8")
		require.Len(t, s.leaseRequests("create", "a"), 1, "14.8")
		require.Empty(t, s.events("RemediationSkipped"))
		// Another CR needs it.
		s.deleteCR("a")
		s.eventually("a new CR", func() bool { now := s.cr("a"); return now != nil && now.GetUID() != cr.GetUID() })
		s.eventuallyCR("a")
		s.requireLease(s.nodeLease("a"), "a", 660*time.Second, 0)
	})
	t.Run("14.8-foreign", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		s.fail("a")
		cr := s.eventuallyCR("a")
		foreign := take(s)
		s.catchUp()
		s.requireOnly("a", cr)
		require.Empty(t, s.events("RemediationSkipped"), "14.8: it carries on")
		s.heal("a")
		s.eventuallyNoCR("a")
		s.eventuallyCounts(1, 1)
		s.catchUp()
		require.Equal(t, foreign.ResourceVersion, s.nodeLease("a").ResourceVersion, "14.9: it stays untouched")
		require.Empty(t, s.leaseRequests("delete", "a"), "14.9")
	})
}

// TestLeaseOfDeletedNode is released by name (spec 14.9). Its owner is taken away, or
// the garbage collector might be faster.
func TestLeaseOfDeletedNode(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	s.fail("b")
	s.eventuallyCR("a")
	s.eventuallyCR("b")
	s.setFinalizers("a", rungFinalizer)
	s.patchNodeLease("a", map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
	foreign := s.patchNodeLease("b", map[string]any{"metadata": map[string]any{"ownerReferences": nil}, "spec": map[string]any{"holderIdentity": "other"}})
	s.t.Cleanup(func() {
		_ = s.nodeLeases().Delete(context.WithoutCancel(t.Context()), foreign.Name, metav1.DeleteOptions{})
	})
	s.deleteNode("a")
	s.eventuallyNoNodeLease("a") // 17.2: without waiting for finalizers.
	s.eventually("no entry", func() bool { return s.entry("a") == nil })
	s.deleteNode("b")
	s.eventuallyNoCR("b")
	s.eventually("no entry", func() bool { return s.entry("b") == nil })
	s.catchUp()
	require.Equal(t, foreign.ResourceVersion, s.nodeLease("b").ResourceVersion, "14.9: of another holder")
}
