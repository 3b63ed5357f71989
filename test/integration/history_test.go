// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// episode returns the newest episode of a node, nil if there is none.
func (s *scenario) episode(name string) *v1alpha1.Episode {
	for _, episode := range s.status().RemediationHistory {
		if episode.Node == s.node(name) {
			return &episode
		}
	}
	return nil
}

func (s *scenario) eventuallyFinished(name string, outcome v1alpha1.EpisodeOutcome) *v1alpha1.Episode {
	s.t.Helper()
	s.eventually("the episode of node "+name+" to end with "+string(outcome), func() bool {
		episode := s.episode(name)
		return episode != nil && episode.Outcome == outcome
	})
	return s.episode(name)
}

// TestHistory has one episode of each outcome, and a restart in the middle.
func TestHistory(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	s := newScenario(t, c)
	first := c.startController(t, "history-1", "--leader-elect=false")
	s.createNodes("a", "b", "c", "d")
	s.createNHC(minHealthy(intstr.FromInt32(0)))
	s.eventuallyCounts(4, 4)

	s.fail("a")
	cr := s.eventuallyCR("a")
	open := s.episode("a")
	require.NotNil(t, open, "an open episode is visible")
	require.Nil(t, open.Finished)
	require.Equal(t, cr.GetCreationTimestamp().UTC(), open.Started.UTC())
	require.Equal(t, "Unknown", string(open.Trigger.Status))
	require.Len(t, open.Steps, 1)
	s.report("a", [2]string{"FenceAgentActionSucceeded", "True"})
	writes := s.statusesWritten()
	s.catchUpNodes()
	require.Equal(t, writes+2, s.statusesWritten(), "P3: of the node that came and went, none of the history")

	require.NoError(t, first.Kill())
	s.heal("a")
	second := c.startController(t, "history-2", "--leader-elect=false")
	s.eventuallyNoCR("a")
	closed := s.eventuallyFinished("a", v1alpha1.OutcomeRecovered)
	require.Equal(t, open.Detected, closed.Detected, "P8")
	require.NotNil(t, closed.Fenced)
	require.Equal(t, v1alpha1.StepRecovered, closed.Steps[0].Result)
	require.NotNil(t, closed.Steps[0].Ended)

	s.updateNHC(pause("wait"))
	s.fail("b")
	s.eventuallyDecided("b", v1alpha1.DecidedPaused)
	s.heal("b")
	s.eventuallyFinished("b", v1alpha1.OutcomeRecoveredWithoutRemediation)
	s.fail("c")
	s.eventuallyDecided("c", v1alpha1.DecidedPaused)
	s.labelNode("c", map[string]any{"test.nhc-controller.io/scenario": "another"})
	s.eventuallyFinished("c", v1alpha1.OutcomeCancelled)
	s.createNodes("e")
	s.fail("e")
	s.eventuallyDecided("e", v1alpha1.DecidedPaused)
	s.deleteNode("e")
	require.Nil(t, s.eventuallyFinished("e", v1alpha1.OutcomeNodeDeleted).Released, "nothing was done")
	s.updateNHC(pause())
	s.fail("d")
	s.eventuallyCR("d")
	require.NoError(t, second.Signal(syscall.SIGSTOP))
	s.report("d", [2]string{v1alpha1.RemediationSucceeded, "True"})
	s.deleteCR("d")
	s.heal("d")
	require.NoError(t, second.Signal(syscall.SIGCONT))
	require.NotNil(t, s.eventuallyFinished("d", v1alpha1.OutcomeRecovered).Fenced, "23b.1: it succeeded and went between two syncs")
	require.Equal(t, closed, s.episode("a"), "it outlives recovery")

	s.updateNHC(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationHistoryLimit = new(int32(2)) })
	s.eventually("two episodes", func() bool { return len(s.status().RemediationHistory) == 2 })
	s.updateNHC(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationHistoryLimit = new(int32(0)) })
	s.eventually("no history", func() bool { return s.status().RemediationHistory == nil })
}

// statusesWritten returns how often the status of the NodeHealthCheck was written with success.
func (s *scenario) statusesWritten() int {
	s.t.Helper()
	return len(slices.DeleteFunc(s.statusWrites(time.Time{}), func(r localkube.Request) bool { return r.Code >= 300 }))
}

// TestHistoryLimitAdmission: the limit is bounded.
func TestHistoryLimitAdmission(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	for limit, refused := range map[int32]bool{-1: true, 0: false, 100: false, 101: true} {
		nhc := s.spec(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationHistoryLimit = &limit })
		_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), nhc, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !refused {
			require.NoError(t, err, limit)
			continue
		}
		require.ErrorContains(t, err, "remediationHistoryLimit", limit)
	}
}
