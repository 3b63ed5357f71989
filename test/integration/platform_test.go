// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestOpenShift runs the controller as it is meant for OpenShift. What belongs to
// the platform is there for all NodeHealthChecks of a cluster, so that the tests
// take turns.
func TestOpenShift(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	controller := c.startOnOpenShift(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster, *localkube.Process)
	}{
		{"kinds come and go", testKindsComeAndGo},
		{"conflict", testConflict},
		{"terminating nodes", testTerminatingNodes},
		{"upgrade", testUpgrade},
		{"upgrade of a node", testUpgradeOfNode},
		{"upgrade and pause", testUpgradeAndPause},
		{"namespace of Metal3", testMetal3Namespace},
		{"machines", testOpenShiftMachines}, // Stops this controller.
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c, controller) })
	}
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
	s := newOnPlatform(t, c)
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

// kubeNode returns a Node, nil if there is none.
func (s *onPlatform) kubeNode(name string) *corev1.Node {
	s.t.Helper()
	node, err := s.kube.CoreV1().Nodes().Get(s.t.Context(), s.node(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s.t, err)
	return node
}

// TestPlatformLater runs the controller as it is meant for any cluster, in one
// where parts of the platforms appear later.
func TestPlatformLater(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	_, err := c.Kubectl(t.Context(), "create", "namespace", "openshift-etcd")
	require.NoError(t, err)
	controller := c.startController(t, "vanilla")
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster)
	}{
		{"neither platform", testNeitherPlatform},
		{"cluster api", testClusterAPIMachines},
		{"forbidden machines", testForbiddenMachines},
		{"forbidden cluster version", testForbiddenClusterVersion},
		{"forbidden machine health checks", testForbiddenMachineHealthChecks}, // Grants them in the end.
		{"permissions taken away", testPermissionsTakenAway},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c) })
	}
	requireRunning(t, controller)
}

// testNeitherPlatform: the controller looks for kinds that are not served, and a control
// plane node needs no etcd (spec 1.3, 12.3).
func testNeitherPlatform(t *testing.T, c *cluster) {
	s := newOnPlatform(t, c)
	s.createNodes("a", "cp")
	s.labelNode("cp", map[string]any{"node-role.kubernetes.io/control-plane": ""})
	s.annotateNode("a", map[string]any{"machine.openshift.io/machine": s.name + "/a", "cluster.x-k8s.io/machine": "a", "cluster.x-k8s.io/cluster-namespace": s.name})
	s.createNHC()
	s.fail("a")
	require.Equal(t, []metav1.OwnerReference{s.firstOwner()}, s.eventuallyCR("a").GetOwnerReferences())
	s.fail("cp")
	s.eventuallyCR("cp")
	s.requireEnabled()
	s.catchUp()
	asked := s.audited(t, func(r localkube.Request) bool { return strings.HasPrefix(r.URI, "/apis/machine.openshift.io/") })
	require.NotEmpty(t, asked, "there was a first look; TestQuietCluster has no other one")
	require.Empty(t, s.audited(t, func(r localkube.Request) bool { return r.Namespace == "openshift-etcd" }))
}
