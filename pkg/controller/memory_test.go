// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestMemories: one for each NodeHealthCheck, as long as it lives.
func TestMemories(t *testing.T) {
	t.Parallel()
	var all memories
	require.Nil(t, all.forget("workers"), "there was none")
	nhc := testCheck()
	nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "n", Decision: &v1alpha1.Decision{Type: "Held", Reason: "Paused"}}, {Name: "m"}}
	first := all.of(nhc)
	require.Equal(t, map[string]v1alpha1.Decision{"n": {Type: "Held", Reason: "Paused"}}, first.decisions, "P8: after a restart, status tells")
	require.Nil(t, first.remediations, "before the first sync")
	require.NotNil(t, first.deletionRequested)
	require.Same(t, first, all.of(testCheck()))
	require.NotSame(t, first, all.of(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Name = "others" })))

	first.announced.gateClosed, first.deletionRequested = true, map[types.UID]bool{"1": true}
	first.remediations, first.oldNodes = map[types.UID]tracked{"1": {node: "n"}}, sets.New("n")
	again := testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.UID = "of-the-next-life" })
	next := all.of(again)
	require.NotSame(t, first, next)
	require.False(t, next.announced.gateClosed, "P9: what was said of a namesake says nothing")
	require.Empty(t, next.deletionRequested, "P9")
	require.Empty(t, next.decisions, "P9")
	require.Equal(t, first.remediations, next.remediations, "20.1: its series are still to be removed")
	require.Equal(t, first.oldNodes, next.oldNodes, "20.1")
	require.Same(t, next, all.of(again))

	require.Same(t, next, all.forget("workers"))
	require.Nil(t, all.forget("workers"))
	require.NotSame(t, next, all.of(again))
}

// TestSecondLifeIsToldAnew: what was said of a NodeHealthCheck is said again of one
// that was created under its name.
func TestSecondLifeIsToldAnew(t *testing.T) {
	t.Parallel()
	s := begun(t)
	closed := sick("n", refused(remediation.RefusedGateClosed))
	require.Len(t, s.sync(closed), 2)
	s.quiet(t, closed)
	s.nhc.UID, s.nhc.Status = "of-the-next-life", v1alpha1.NodeHealthCheckStatus{}
	s.memory = s.memories.of(s.nhc)
	require.Len(t, s.sync(closed), 3, "19.1: Enabled, DetectedUnhealthy, RemediationSkipped")
	s.quiet(t, closed)
}

// TestOldSeriesOfRecreatedNHC: as TestSeriesOfRecreatedNHC, for old CRs.
func TestOldSeriesOfRecreatedNHC(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.now = epoch.Add(49 * time.Hour)
	s.sync(sick("n", own(testCR("n", "1"))))
	require.Len(t, s.values(t, oldCRs), 1)
	s.nhc.UID, s.nhc.Status = "of-the-next-life", v1alpha1.NodeHealthCheckStatus{}
	s.memory = s.memories.of(s.nhc)
	s.sync(well("n"))
	require.Empty(t, s.values(t, oldCRs), "P4 20.1: the series goes with its cause")
}
