// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestCounts: status has the numbers of the fleet (spec 7.8).
func TestCounts(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.observe = func(w *observed) { w.Summary.Observed, w.Summary.Healthy, w.Summary.SoonUnhealthy = 9, 5, 2 }
	status := s.result(sick("a", own(testCR("a", "1"))), sick("b", refused(v1alpha1.DecidedPaused))).Status
	require.EqualValues(t, 9, *status.ObservedNodes, "7.1")
	require.EqualValues(t, 5, *status.HealthyNodes, "7.6")
	require.EqualValues(t, 2, *status.SoonUnhealthyNodes)
	require.EqualValues(t, 1, *status.RemediatingNodes)
}
