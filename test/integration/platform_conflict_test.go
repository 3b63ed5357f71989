// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

const conflictMessage = "Custom MachineHealthCheck(s) detected, disabling NodeHealthCheck to avoid conflicts"

// requireConflict waits until the NodeHealthCheck is Disabled by a conflict, and
// checks how this is told, in n events so far.
func (s *onPlatform) requireConflict(n int) {
	s.t.Helper()
	s.eventuallyDisabled("ConflictingMachineHealthCheckDetected")
	status := s.status()
	require.Equal(s.t, v1alpha1.PhaseDisabled, status.Phase)
	require.Equal(s.t, "NHC is disabled: ConflictingMachineHealthCheckDetected: "+conflictMessage, status.Reason, "18.1")
	require.Equal(s.t, conflictMessage, s.disabled().Message, "6.1")
	s.eventually("the event of the conflict", func() bool { return len(s.events("Disabled")) == n })
	for _, note := range s.events("Disabled") {
		require.Equal(s.t, conflictMessage, note, "19.1")
	}
}

// testForbiddenMachineHealthChecks: as long as the controller may not read them, it
// does not know whether there is a conflict (spec 6.1, 6.4, 6.6, 6.9).
func testForbiddenMachineHealthChecks(t *testing.T, c *cluster) {
	s := newOnPlatform(t, c)
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	s.eventuallyCR("a")
	c.installOptional(t, machineHealthCheck)
	s.eventuallyMessage("PlatformForbidden", platformForbidden(machineHealthCheck))
	s.requireDisabled("PlatformForbidden", platformForbidden(machineHealthCheck))
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0})
	s.heal("a")
	s.eventuallyNoCR("a") // 5.2
	s.catchUpNodes()
	s.requireNeverCreated("b")

	c.applyOverlay(t, "openshift")
	s.requireEnabled() // By the next probe.
	s.eventuallyCR("b")
	require.Equal(t, int64(1), s.get().Generation, "6.4")
	c.createOptional(t, machineHealthCheck, s.name, "one", watching("Ready"))
	s.eventuallyDisabled("ConflictingMachineHealthCheckDetected")
	require.True(t, meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionDisabled))
}

func platformForbidden(kind optionalKind) string {
	return fmt.Sprintf("Missing permission: cannot get resource %q in API group %q. Grant it to the controller by the overlay manifests/overlays/openshift", kind.resource.Resource, kind.resource.Group)
}

// testPermissionsTakenAway: the last known state of the platform holds (spec 6.9, 10.2).
func testPermissionsTakenAway(t *testing.T, c *cluster) {
	c.applyOverlay(t, "openshift")
	c.installOptional(t, machineHealthCheck, clusterVersion)
	s := newOnPlatform(t, c)
	c.createOptional(t, machineHealthCheck, s.name, "one", watching("Ready"))
	c.createOptional(t, clusterVersion, "", "version", progressing("True", ""))
	s.createNodes("a", "b")
	s.createNHC()
	s.requireConflict(1)
	s.eventuallyEvent("RemediationSkipped", upgradePostponed)
	require.Nil(t, s.platformAccess())

	_, err := c.Kubectl(t.Context(), "delete", "clusterrolebinding", "nhc-controller-openshift")
	require.NoError(t, err)
	s.touchCRD(machineHealthCheck.resource, "withdrawn")
	s.touchCRD(clusterVersion.resource, "withdrawn")
	s.eventually("the lack of access is told", func() bool { return s.platformAccess() != nil })
	require.Equal(t, metav1.ConditionFalse, s.platformAccess().Status)
	require.Equal(t, "PlatformForbidden", s.platformAccess().Reason)
	require.Contains(t, s.platformAccess().Message, platformForbidden(clusterVersion))
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	s.catchUpNodes()
	s.requireConflict(1)

	c.uninstallOptional(t, machineHealthCheck)
	s.requireEnabled()
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 0, "b": 0})
	s.catchUpNodes()
	s.requireNeverCreated("a", "b")
	require.Equal(t, []string{upgradePostponed}, s.events("RemediationSkipped"), "10.2: it goes on")

	c.applyOverlay(t, "openshift")
	s.eventually("access", func() bool { return s.platformAccess() == nil })
	s.setProgressing("False", "at 2")
	s.eventuallyCR("a")
	s.eventuallyCR("b")
}

func (s *onPlatform) platformAccess() *metav1.Condition {
	s.t.Helper()
	return meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionPlatformAccess)
}
