// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// instant returns the instant of the n-th sync of a story.
func instant(n int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(n) * time.Second)) }

// onlyEpisode returns the only episode that status shows.
func (s *story) onlyEpisode(t *testing.T) v1alpha1.Episode {
	t.Helper()
	require.Len(t, s.nhc.Status.RemediationHistory, 1)
	return s.nhc.Status.RemediationHistory[0]
}

// TestEpisode follows one illness of a node through the status, and a restart in the
// middle of it.
func TestEpisode(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(sick("a", refused(v1alpha1.DecidedPaused)))
	open := s.onlyEpisode(t)
	require.Equal(t, "a", open.Node)
	require.Equal(t, &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}, open.Trigger)
	require.Equal(t, instant(-60), open.Detected, "23b.1: when the condition came, not when its duration was over")
	require.Nil(t, open.Started)
	require.Nil(t, open.Finished)
	require.Equal(t, open.Trigger, s.nhc.Status.UnhealthyNodes[0].Trigger)
	require.Equal(t, &open.Detected, s.nhc.Status.UnhealthyNodes[0].Detected)

	cr := testCR("a", "1", crAt(instant(1).Time))
	s.sync(sick("a", created(cr)))
	require.Equal(t, instant(1), *s.onlyEpisode(t).Started)
	s.restart()
	s.sync(well("a", own(cr), deleted(cr)))
	healthy := s.onlyEpisode(t)
	require.Equal(t, s.nhc.Status.UnhealthyNodes[0].ConditionsHealthyTimestamp, healthy.Finished, "23b.1: it shows as soon as the node is healthy")
	require.Empty(t, healthy.Outcome, "its CR is left")
	s.restart()
	s.sync(well("a"))
	closed := s.onlyEpisode(t)
	require.Equal(t, v1alpha1.OutcomeRecovered, closed.Outcome)
	require.Equal(t, instant(2), *closed.Finished, "23b.1: finalizers come after it")
	require.Equal(t, []v1alpha1.EpisodeStep{{Kind: "RebootRemediation", TemplateName: "reboot", Started: instant(1), Ended: new(instant(3)), Result: v1alpha1.StepRecovered}}, closed.Steps)

	s.restart()
	s.sync(sick("a"), sick("b"))
	require.Len(t, s.nhc.Status.RemediationHistory, 3, "it outlives recovery and restart")
	require.Contains(t, s.nhc.Status.RemediationHistory, closed)
}

// TestEpisodeOfDeletedNode: the episode of a Node that was deleted under remediation ends with its CR, and that is written,
// although nothing else changes (spec 23b.2, 23b.3). It had no outcome for an hour.
func TestEpisodeOfDeletedNode(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	cr := testCR("a", "1")
	s.sync(sick("a", own(cr)))
	s.sync(sick("a", nodeDeleted, own(cr), deleted(cr)))
	require.Empty(t, s.nhc.Status.UnhealthyNodes)
	require.Empty(t, s.onlyEpisode(t).Outcome, "its remediator may bring the Node back")
	s.restart()
	s.sync(sick("a", nodeDeleted))
	require.Equal(t, v1alpha1.OutcomeNodeDeleted, s.onlyEpisode(t).Outcome)
	require.Equal(t, instant(2), *s.onlyEpisode(t).Finished)
}

// TestHistoryCostsNoWrite: a change of the history alone waits for the next write. A
// restart before that does not lose it.
func TestHistoryCostsNoWrite(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	cr := testCR("a", "1")
	s.sync(sick("a", own(cr)))
	before := s.nhc.Status.DeepCopy()
	down := testCR("a", "1", func(cr *object.CR) { cr.Fenced, cr.FencedSince = true, epoch.Add(time.Second) })
	s.sync(sick("a", own(down)))
	require.Equal(t, before, &s.nhc.Status, "P3")
	s.restart()
	s.sync(well("a", own(down)))
	require.Equal(t, epoch.Add(time.Second), s.nhc.Status.RemediationHistory[0].Fenced.Time)
}
