// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

const conflictMessage = "Custom MachineHealthCheck(s) detected, disabling NodeHealthCheck to avoid conflicts"

// TestOpenShift runs the controller as it is meant for OpenShift.
func TestOpenShift(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	controller := c.startOnOpenShift(t)
	t.Run("kinds come and go", func(t *testing.T) { testKindsComeAndGo(t, c, controller) })
}

// startOnOpenShift starts the controller as it is meant for OpenShift.
func (c *cluster) startOnOpenShift(t *testing.T) *localkube.Process {
	t.Helper()
	for _, namespace := range []string{"openshift-etcd", machineNamespace} {
		_, err := c.Kubectl(t.Context(), "create", "namespace", namespace)
		require.NoError(t, err)
	}
	c.applyOverlay(t, "openshift")
	return c.startController(t, "openshift")
}

// testKindsComeAndGo: the controller was started without any of the kinds (spec
// 1.3, 6.4, 6.9, 10.3).
func testKindsComeAndGo(t *testing.T, c *cluster, controller *localkube.Process) {
	s := newScenario(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.fail("c")
	s.eventuallyCR("c")

	c.installOptional(t, machineHealthCheck, clusterVersion)
	c.createOptional(t, machineHealthCheck, s.name, "one", watching("Ready"))
	require.Equal(t, conflictMessage, s.eventuallyDisabled("ConflictingMachineHealthCheckDetected"))
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0, "c": 1})
	s.serve(machineHealthCheck.resource, false) // The object stays.
	s.requireEnabled()
	s.eventuallyCR("a")
	s.serve(machineHealthCheck.resource, true)
	s.eventuallyDisabled("ConflictingMachineHealthCheckDetected")
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0, "c": 1})
	c.uninstallOptional(t, machineHealthCheck)
	s.requireEnabled()
	s.eventuallyCR("b")

	s.heal("a")
	s.eventuallyNoCR("a")
	c.createOptional(t, clusterVersion, "", "version", progressing("True", ""))
	s.eventuallyEvent("RemediationSkipped", upgradePostponed)
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0, "b": 1, "c": 1})
	c.uninstallOptional(t, clusterVersion)
	s.eventuallyCR("a")

	require.Equal(t, int64(1), s.get().Generation, "6.4: without touching the NodeHealthCheck")
	require.Len(t, s.crRequests("create", "a"), 2)
	requireRunning(t, controller)
}
