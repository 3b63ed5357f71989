// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

const conflictMessage = "Custom MachineHealthCheck(s) detected, disabling NodeHealthCheck to avoid conflicts"

// testConflict: while Disabled by MachineHealthChecks the controller writes nothing
// but status and events, and then makes up for it (spec 5.2, 6.1 to 6.4, 6.7, 6.9).
func testConflict(t *testing.T, c *cluster, _ *localkube.Process) {
	c.installOptional(t, machineHealthCheck)
	s := newOnPlatform(t, c)
	s.createNodes("gone", "healed", "idle", "new", "stuck")
	s.createNHC()
	for _, name := range []string{"gone", "healed", "stuck"} {
		s.fail(name)
		s.eventuallyCR(name)
	}
	s.setFinalizers("stuck", "test.nhc-controller.io/stay")
	s.catchUp()
	require.Equal(t, []string{v1alpha1.MessageEnabled}, s.events("Enabled"))

	c.createOptional(t, machineHealthCheck, s.name, "one", watching("Terminating"))
	c.createOptional(t, machineHealthCheck, s.name, "two", watching("Terminating"))
	s.requireConflict(1)
	writes := s.writesToTheWorld()

	s.heal("healed")
	s.annotateNode("idle", map[string]any{v1alpha1.AnnotationManuallyConfirmedHealthy: ""})
	s.deleteNode("gone")
	s.deleteCR("stuck") // Its finalizer keeps it.
	old := s.ageLease("stuck", 8*time.Minute, 8*time.Minute)
	healed, gone, stuck := s.cr("healed"), s.cr("gone"), s.cr("stuck")
	s.fail("new")
	s.eventuallyListed(map[string]int{"gone": 1, "healed": 1, "new": 0, "stuck": 1})
	s.eventually("the healed node is known to be healthy", func() bool {
		entry := s.entry("healed")
		return entry != nil && entry.ConditionsHealthyTimestamp != nil
	})
	s.eventuallyCounts(4, 1)
	s.catchUpNodes()
	s.requireConflict(1)
	require.Equal(t, writes, s.writesToTheWorld(), "6.7")
	require.Equal(t, healed, s.cr("healed"), "6.7")
	require.Equal(t, gone, s.cr("gone"), "6.7")
	require.Equal(t, stuck, s.cr("stuck"), "6.7")
	require.Equal(t, old, s.nodeLease("stuck"), "6.7: not renewed")
	require.Equal(t, map[string]int{"gone": 1, "healed": 1, "new": 0, "stuck": 1}, s.listed(), "18.4")

	// One is left, which replaces nodes that terminate: this is no conflict.
	c.deleteOptional(t, machineHealthCheck, s.name, "two")
	s.requireEnabled()
	s.eventually("the event of the end", func() bool { return len(s.events("Enabled")) == 2 })
	s.eventuallyNoCR("healed")
	s.eventuallyNoCR("gone")
	s.eventuallyCR("new")
	s.eventuallyTimedOut("stuck")
	s.eventuallyRenewed("stuck", old)
	s.eventually("the confirmation is removed", func() bool {
		_, confirmed := s.kubeNode("idle").Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
		return !confirmed
	})
	s.eventuallyListed(map[string]int{"new": 1, "stuck": 1})
	s.eventuallyCounts(4, 2)

	// Exactly one, but of another type. The API server gets the third event and all
	// further ones later, as a series.
	one := c.dynamic.Resource(machineHealthCheck.resource).Namespace(s.name)
	for _, conditions := range [][]string{{"Ready"}, {"Terminating", "Ready"}, {"Ready", "Terminating"}} {
		s.patch(one, "one", watching(conditions...))
		s.requireConflict(2)
		s.patch(one, "one", watching("Terminating"))
		s.requireEnabled()
	}
	require.Equal(t, int64(1), s.get().Generation, "6.4")
}

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

// testTerminatingNodes: they are left to a MachineHealthCheck, as long as there is
// one (spec 7.7).
func testTerminatingNodes(t *testing.T, c *cluster, _ *localkube.Process) {
	c.installOptional(t, machineHealthCheck)
	s := newOnPlatform(t, c)
	s.createNodes("a", "b", "c")
	s.setCondition("b", "Terminating", corev1.ConditionTrue, time.Now())
	s.createNHC()
	c.createOptional(t, machineHealthCheck, s.name, "one", watching("Terminating"))
	s.fail("a")
	cr := s.eventuallyCR("a")

	// Wait for what shows that the MachineHealthCheck is known: node a, which is under
	// remediation, becomes one of those.
	s.setCondition("a", "Terminating", corev1.ConditionFalse, time.Now())
	s.eventuallyNoCR("a")
	s.eventuallyCounts(3, 3)
	s.fail("b")
	s.fail("c")
	s.eventuallyCR("c")
	s.eventuallyListed(map[string]int{"c": 1})
	s.eventuallyCounts(3, 2)
	s.catchUp()
	s.requireNeverCreated("b")
	require.Empty(t, s.eventsAbout("Node", s.node("b"), "DetectedUnhealthy"))
	require.Equal(t, metav1.ConditionFalse, s.disabled().Status, "6.9")

	c.deleteOptional(t, machineHealthCheck, s.name, "one")
	s.eventuallyCR("b")
	require.NotEqual(t, cr.GetUID(), s.eventuallyCR("a").GetUID())
	s.eventuallyCounts(3, 0)
	require.Empty(t, s.events("Disabled"))
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
	s.requireEnabled() // By the poll.
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
