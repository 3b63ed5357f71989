// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestUnansweredCreation: while a webhook does not answer about the CR of one node, other nodes get theirs, and
// status says what the first one waits for (spec 8.4).
func TestUnansweredCreation(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	creations := s.holdCreations()
	s.fail("a")
	creations.await(t)
	s.eventually("what a waits for", func() bool {
		entry := s.entry("a")
		return entry != nil && entry.Decision != nil && entry.Decision.Message == remediation.NoAnswer
	})
	require.Equal(t, v1alpha1.DecidedNextBatch, s.entry("a").Decision.Reason)
	s.fail("b")
	creations.await(t)
	creations.release()
	s.eventuallyCR("a")
	s.eventuallyCR("b")
	s.eventually("the CRs in status", func() bool {
		a, b := s.entry("a"), s.entry("b")
		return a != nil && b != nil && len(a.Remediations) == 1 && len(b.Remediations) == 1
	})
}
