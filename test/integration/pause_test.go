// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func pause(requests ...string) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = requests }
}

const postponed = "Postponing potential remediations because of pause requests"

// TestPause: nothing new begins during a pause, what runs ends, and the end of the
// pause is noticed at once (spec 5.2, 10.1, 10.3, 10.4, 18.1).
func TestPause(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c", "d")
	s.createNHC()
	s.fail("a")
	s.fail("d")
	s.eventuallyCR("a")
	kept := s.eventuallyCR("d")

	s.updateNHC(pause("upgrade of the firmware", "exam"))
	require.Equal(t, v1alpha1.PhasePaused, s.status().Phase)
	require.Equal(t, "NHC is paused: upgrade of the firmware,exam", s.status().Reason)
	s.eventuallyEvent("RemediationSkipped", postponed)
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0, "d": 1})
	s.eventuallyCounts(4, 1)
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyListed(map[string]int{"b": 0, "d": 1})
	s.eventuallyCounts(4, 2)

	// Other requests are the same pause.
	s.updateNHC(pause("exam"))
	require.Equal(t, "NHC is paused: exam", s.status().Reason)
	s.fail("c")
	s.eventuallyListed(map[string]int{"b": 0, "c": 0, "d": 1})
	s.heal("c")
	s.eventuallyListed(map[string]int{"b": 0, "d": 1})
	s.catchUpNodes()
	require.Nil(t, s.cr("b"))
	require.Equal(t, kept.GetResourceVersion(), s.cr("d").GetResourceVersion(), "10.1")
	require.Equal(t, []string{postponed}, s.events("RemediationSkipped"), "19.1: when the pause begins")

	s.updateNHC(pause())
	s.eventuallyCR("b")
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	require.Equal(t, "NHC is remediating 2 nodes", s.status().Reason)
	require.Empty(t, s.crRequests("create", "c"), "10.1")
	s.requireRequests("create", "d", 1)

	s.updateNHC(pause("again"))
	s.eventually("the event of the second pause", func() bool { return len(s.events("RemediationSkipped")) == 2 })
}
