// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestSeriesFromTheFirstSync: a counter begins with 0 and is not missing.
func TestSeriesFromTheFirstSync(t *testing.T) {
	t.Parallel()
	step := func(kind string) v1alpha1.EscalatingRemediation {
		return v1alpha1.EscalatingRemediation{RemediationTemplate: corev1.ObjectReference{Kind: kind}}
	}
	s := newStory(t, func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Spec.RemediationTemplate = nil
		nhc.Spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{step("ATemplate"), step("BTemplate"), step("Broken")}
	})
	s.sync()
	for _, counter := range []string{started, succeededTotal, timedOutTotal, cancelled, failedEpisodes} {
		require.Equal(t, map[string]float64{"/workers/A": 0, "/workers/B": 0}, s.values(t, counter), "20.3: for each of its kinds")
	}
	require.Equal(t, map[string]float64{"/workers/Recovered": 0, "/workers/RecoveredWithoutRemediation": 0, "/workers/Replaced": 0, "/workers/NodeDeleted": 0, "/workers/Cancelled": 0, "/workers/DryRun": 0},
		s.values(t, "nhc_episodes_total"), "20.3: for each outcome")
	for _, metric := range []string{detection, "nhc_episode_duration_seconds"} {
		require.Equal(t, map[string]float64{"/workers": 0}, s.values(t, metric), "20.3: %s", metric)
	}
}

// TestSeriesOfGoneNodes: names of nodes do not pile up.
func TestSeriesOfGoneNodes(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(sick("gone", own(testCR("gone", "1"))), sick("there", own(testCR("there", "2"))), sick("back", own(testCR("back", "3"))))
	ended := s.now
	s.sync(well("gone"), well("there"), well("back"))
	nodes := map[string]bool{"there": true}
	expire := func(after time.Duration) []string {
		s.metrics.expireSeries(func(node string) bool { return nodes[node] }, ended.Add(after))
		var left []string
		for _, node := range []string{"gone", "there", "back"} {
			if _, kept := s.values(t, unhealthySeconds)["/"+node+"/remediators/RebootRemediation"]; kept {
				left = append(left, node)
			}
		}
		return left
	}
	require.Equal(t, []string{"gone", "there", "back"}, expire(0))
	nodes["back"] = true
	require.Equal(t, []string{"gone", "there", "back"}, expire(time.Hour-1))
	require.Equal(t, []string{"there", "back"}, expire(time.Hour), "20.1: one hour after its Node is gone")
	delete(nodes, "back")
	require.Equal(t, []string{"there", "back"}, expire(2*time.Hour-1), "20.1: it was there in the meantime")
	require.Equal(t, []string{"there"}, expire(2*time.Hour))
}

func TestUncoveredNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := newTestController(t, clock.RealClock{})
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, c.NodeCache.Add(testNode(name, labelled("role", name))))
		}
		require.Zero(t, c.uncoveredNodes(), "nothing is known before the caches are filled")
		c.Synced = nil
		require.InDelta(t, 3, c.uncoveredNodes(), 0, "20.3")
		for _, name := range []string{"one", "other"} {
			nhc := testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
				nhc.Name, nhc.Spec.Selector.MatchLabels = name, map[string]string{"role": "a"}
			})
			c.index.SetCheck(checkOf(nhc))
		}
		require.InDelta(t, 2, c.uncoveredNodes(), 0, "20.3: a node that two select is one")
	})
}
