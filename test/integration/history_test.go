// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
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
