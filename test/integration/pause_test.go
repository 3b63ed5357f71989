// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

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

// TestPauseFromTheBeginning: with nothing to postpone, and before the gate (spec
// 5.4, 10.1).
func TestPauseFromTheBeginning(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC(pause("first"), minHealthy(intstr.FromString("100%")))
	s.eventuallyCounts(2, 2)
	require.Equal(t, v1alpha1.PhasePaused, s.status().Phase)
	require.Equal(t, "NHC is paused: first", s.status().Reason)
	s.eventuallyEvent("Enabled", v1alpha1.MessageEnabled) // 10.5
	s.eventuallyEvent("RemediationSkipped", postponed)
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	s.catchUpNodes()
	require.Equal(t, []string{postponed}, s.events("RemediationSkipped"), "5.4: the pause is reported, not the gate")

	s.updateNHC(pause())
	s.eventuallyEvent("RemediationSkipped", tooFewHealthy(1, 2))
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
	require.Empty(t, s.crRequests("create", "a"))
}

// TestDisabledWinsOverPaused (spec 10.5, 18.1).
func TestDisabledWinsOverPaused(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC(pause("first"))
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	s.deleteTemplate()
	s.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
	s.requireDisabled(v1alpha1.ReasonTemplateNotFound, s.templateMissing())
	s.createTemplate(usualTemplate())
	s.requireEnabled()
	require.Equal(t, v1alpha1.PhasePaused, s.status().Phase)
	require.Equal(t, "NHC is paused: first", s.status().Reason)
	s.catchUpNodes()
	require.Empty(t, s.crRequests("create", "a"), "10.1")

	s.deleteTemplate()
	s.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
	s.updateNHC(pause())
	require.Equal(t, v1alpha1.PhaseDisabled, s.status().Phase)
	s.createTemplate(usualTemplate())
	s.eventuallyCR("a")
	s.requireEvents(v1alpha1.Kind, s.name, "RemediationSkipped", 1, "10.4: one pause")
}
