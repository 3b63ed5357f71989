// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestNodeDeleted: the CR of a deleted node is told to stop and deleted, and status
// forgets it at once (spec 17.2, 17.4, 13.8).
func TestNodeDeleted(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	cr := s.eventuallyCR("a")
	s.setFinalizers("a", hold)
	s.deleteNode("a")
	marked := s.eventuallyTimedOut("a")
	require.Equal(t, cr.GetUID(), marked.GetUID())
	s.eventuallyDeleting("a")
	s.eventuallyCounts(1, 1)
	s.eventuallyListed(map[string]int{}) // Without waiting for the finalizer.
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
	require.Equal(t, int32(0), *s.status().RemediatingNodes)
	s.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind PowerCycleRemediation with name "+s.node("a"))
	s.catchUp()
	require.Empty(t, s.listed(), "17.4")
	s.requireRequests("patch", "a", 1, "13.8: written once")
	s.requireRequests("delete", "a", 1)
	require.Empty(t, s.eventsAbout("Node", s.node("a"), "RemediationRemoved"), "19.1: a deleted Node gets none")

	s.setFinalizers("a")
	s.eventuallyNoCR("a")
	s.catchUp()
	s.requireRequests("create", "a", 1)
	removed := slices.DeleteFunc(s.events("RemediationRemoved"), func(note string) bool { return !strings.HasSuffix(note, s.node("a")) })
	require.Len(t, removed, 1, "16.1: once")
}

// TestNodeHealthCheckDeleted: its CRs go with it, by garbage collection (spec 4.5,
// 4.8).
func TestNodeHealthCheckDeleted(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	cr := s.eventuallyCR("a")
	s.setFinalizers("a", hold)
	s.deleteNHC()
	s.eventually("garbage collection", func() bool { now := s.cr("a"); return now != nil && now.GetDeletionTimestamp() != nil })
	require.NotContains(t, s.cr("a").GetAnnotations(), v1alpha1.AnnotationTimedOut)

	// Created again with the same name: it owns the existing CRs (spec 1.4).
	s.createNHC()
	s.eventuallyListed(map[string]int{"a": 1})
	s.requireOnly("a", cr)
	s.eventuallyTimedOut("a")
	s.catchUp()
	s.requireRequests("create", "a", 1, "P9")
	s.setFinalizers("a")
	s.eventually("a new CR", func() bool { now := s.cr("a"); return now != nil && now.GetUID() != cr.GetUID() })
	second := s.eventuallyCR("a")
	require.Equal(t, s.get().UID, second.GetOwnerReferences()[0].UID)
	s.requireOnly("a", second)
	s.heal("a")
	s.eventuallyCounts(2, 2)
	s.requireRequests("create", "a", 2)
	s.requireRequests("delete", "a", 1)
}
