// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLogs: the log of a controller with the flags of the manifests tells which machine was
// repaired (spec 23c).
func TestLogs(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	controller := c.startController(t, "logs", "-v=0")
	s := newScenario(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	s.fail("a")
	s.eventuallyCR("a")
	s.recover("a", 3)

	about := map[string]any{"nodeHealthCheck": s.name, "node": s.node("a")}
	aboutCR := map[string]any{
		"nodeHealthCheck": s.name, "node": s.node("a"), "kind": "PowerCycleRemediation",
		"remediation": map[string]any{"name": s.node("a"), "namespace": s.name},
	}
	for message, want := range map[string]map[string]any{
		"Became leader":           {"lock": "nhc-system/nhc-controller"},
		"Detected unhealthy node": about,
		"Created remediation":     aboutCR,
		"Deleted remediation":     aboutCR,
		"Node recovered":          about,
	} {
		eventuallyLogged(t, controller, message)
		lines := logged(t, controller, message)
		require.Len(t, lines, 1, message)
		for key, value := range want {
			require.Equal(t, value, lines[0][key], "%s: %s", message, key)
		}
	}
	for _, message := range []string{"Syncing", "Planned", "Decision changed", "Wrote lease"} {
		require.Empty(t, logged(t, controller, message), message)
	}
}
