// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestEpisode follows one illness of a node through the status, and a restart in the
// middle of it.
func TestEpisode(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	at := func(n int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(n) * time.Second)) }
	only := func() v1alpha1.Episode {
		require.Len(t, s.nhc.Status.RemediationHistory, 1)
		return s.nhc.Status.RemediationHistory[0]
	}
	s.sync(sick("a", refused(remediation.RefusedPaused)))
	open := only()
	require.Equal(t, "a", open.Node)
	require.Equal(t, &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}, open.Trigger)
	require.Nil(t, open.Started)
	require.Nil(t, open.Finished)
	require.Equal(t, open.Trigger, s.nhc.Status.UnhealthyNodes[0].Trigger)
	require.Equal(t, &open.Detected, s.nhc.Status.UnhealthyNodes[0].Detected)

	cr := testCR("a", "1", func(cr *remediation.CR) { cr.CreationTimestamp = at(1) })
	s.sync(sick("a", created(cr)))
	require.Equal(t, at(1), *only().Started)
	s.restart()
	s.sync(well("a", own(cr)))
	require.Nil(t, only().Finished, "its CR is left")
	s.sync(well("a"))
	closed := only()
	require.Equal(t, v1alpha1.OutcomeRecovered, closed.Outcome)
	require.Equal(t, at(3), *closed.Finished)
	require.Equal(t, []v1alpha1.EpisodeStep{{Kind: "RebootRemediation", TemplateName: "reboot", Started: at(1), Ended: new(at(3)), Result: v1alpha1.StepRecovered}}, closed.Steps)

	s.restart()
	s.sync(sick("a"), sick("b"))
	require.Len(t, s.nhc.Status.RemediationHistory, 3, "it outlives recovery and restart")
	require.Contains(t, s.nhc.Status.RemediationHistory, closed)
}

// TestHistoryCostsNoWrite: what only the history could tell waits for the next write,
// and a restart before that does not lose it.
func TestHistoryCostsNoWrite(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	cr := testCR("a", "1")
	s.sync(sick("a", own(cr)))
	before := s.nhc.Status.DeepCopy()
	down := testCR("a", "1", func(cr *remediation.CR) { cr.Fenced, cr.FencedSince = true, epoch.Add(time.Second) })
	s.sync(sick("a", own(down)))
	require.Equal(t, before, &s.nhc.Status, "P3")
	s.restart()
	s.sync(well("a", own(down)))
	require.Equal(t, epoch.Add(time.Second), s.nhc.Status.RemediationHistory[0].Fenced.Time)
}
