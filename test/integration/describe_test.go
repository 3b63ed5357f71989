// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestDescribe: kubectl shows what goes on, and the events, from both sides.
func TestDescribe(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	s.eventuallyDecided("a", v1alpha1.DecidedStepRunning)
	s.eventuallyEvent("RemediationCreated", "Created remediation object for node "+s.node("a"))
	s.eventually("the event about the node", func() bool { return len(s.eventsAbout("Node", s.node("a"), "RemediationCreated")) > 0 })

	for _, object := range []string{"nhc/" + s.name, "node/" + s.node("a")} {
		output, err := s.Kubectl(t.Context(), "describe", object)
		require.NoError(t, err)
		_, events, found := strings.Cut(output, "Events:")
		require.True(t, found, output)
		require.Contains(t, events, "DetectedUnhealthy", object)
		require.Contains(t, events, "[remediation] Created remediation object for node "+s.node("a"), object)
	}
	output, err := s.Kubectl(t.Context(), "describe", "nhc/"+s.name)
	require.NoError(t, err)
	for _, line := range []string{"Decision:", "StepRunning", "Remediation History:", "RemediationAllowed", "1 of 2 nodes are healthy, at least"} {
		require.Contains(t, output, line)
	}
}
