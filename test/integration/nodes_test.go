// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

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
