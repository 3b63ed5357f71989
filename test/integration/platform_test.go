// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

const conflictMessage = "Custom MachineHealthCheck(s) detected, disabling NodeHealthCheck to avoid conflicts"

// TestOpenShift runs the controller as it is meant for OpenShift. What belongs to
// the platform is there for all NodeHealthChecks of a cluster, so that the tests
// take turns.
func TestOpenShift(t *testing.T) {
	t.Parallel()
	c := newCluster(t, localkube.Options{AuditUsers: []string{deploy.User}})
	for _, namespace := range []string{"openshift-etcd", machineNamespace} {
		_, err := c.Kubectl(t.Context(), "create", "namespace", namespace)
		require.NoError(t, err)
	}
	c.applyOverlay(t, "openshift")
	controller := c.startController(t, "openshift")
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
		{"etcd", testEtcd},
		{"namespace of Metal3", testMetal3Namespace},
		{"machines", testOpenShiftMachines}, // Stops this controller.
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c, controller) })
	}
}

// testKindsComeAndGo: the controller was started without any of the kinds (spec
// 1.3, 6.4, 6.9, 10.3).
func testKindsComeAndGo(t *testing.T, c *cluster, controller *localkube.Process) {
	requireManifests(t, machineHealthCheck)
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

// testConflict: while Disabled by MachineHealthChecks the controller writes nothing
// but status and events, and then makes up for it (spec 5.2, 6.1 to 6.4, 6.7, 6.9).
func testConflict(t *testing.T, c *cluster, _ *localkube.Process) {
	requireManifests(t, machineHealthCheck)
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

	// Exactly one, but of another type. Of a third event and further ones the API
	// server hears later, as of a series.
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
	requireManifests(t, machineHealthCheck)
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

// testUpgrade: of the cluster. Nothing begins, nothing times out, what runs can end
// (spec 5.2, 5.3, 10.2 to 10.4).
func testUpgrade(t *testing.T, c *cluster, controller *localkube.Process) {
	c.installOptional(t, clusterVersion)
	c.createOptional(t, clusterVersion, "", "version", progressing("False", ""))
	s := newOnPlatform(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	s.catchUp()
	require.Empty(t, s.events("RemediationSkipped"))

	// Nothing else happens, so that only a watch can tell.
	s.setProgressing("True", "to 2")
	s.eventuallyEvent("RemediationSkipped", upgradePostponed)
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase, "10.2: the phase stays")
	require.Equal(t, "NHC is enabled, no ongoing remediation", s.status().Reason)
	before := s.syncs(controller)
	s.setProgressing("False", "at 2")
	s.eventually("the end of the upgrade is noticed", func() bool { return s.syncs(controller) > before })

	s.fail("a")
	s.eventuallyCR("a")
	s.fail("c")
	c0 := s.eventuallyCR("c")
	s.setProgressing("True", "to 3")
	s.eventually("the event of the second upgrade", func() bool { return len(s.events("RemediationSkipped")) == 2 })
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0, "c": 1})
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase, "10.2: the phase stays")
	require.Equal(t, "NHC is remediating 2 nodes", s.status().Reason)
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyListed(map[string]int{"b": 0, "c": 1})
	s.eventuallyRenewed("c", s.ageLease("c", 31*time.Minute, 5*time.Minute)) // Overdue, and due to be renewed.
	s.setProgressing("True", "to 3: 90% complete")
	s.catchUpNodes()
	s.requireNeverCreated("b")
	require.Equal(t, c0.GetResourceVersion(), s.cr("c").GetResourceVersion(), "5.2: no timeout")
	require.Equal(t, []string{upgradePostponed, upgradePostponed}, s.events("RemediationSkipped"), "19.1: when an upgrade begins")

	s.setProgressing("False", "at 3")
	s.eventuallyCR("b")
	s.eventuallyTimedOut("c") // 5.3
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	require.Len(t, s.events("RemediationSkipped"), 2)
}

// testUpgradeOfNode: the machine configuration of an unhealthy node is being changed
// (spec 10.2 to 10.4).
func testUpgradeOfNode(t *testing.T, c *cluster, _ *localkube.Process) {
	s := newOnPlatform(t, c)
	s.createNodes("a", "b", "c", "d")
	s.configure("a", "rendered-1", "rendered-1")
	s.configure("b", "rendered-1", "rendered-2")
	s.configure("d", "rendered-1", "")
	s.createNHC()
	s.eventuallyCounts(4, 4)
	s.fail("a")
	s.fail("d")
	s.eventuallyCR("a")
	s.eventuallyCR("d")
	require.Empty(t, s.events("RemediationSkipped"), "10.2: node b is healthy")

	s.fail("b")
	s.eventuallyEvent("RemediationSkipped", upgradePostponed)
	s.fail("c")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0, "c": 0, "d": 1})
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	s.heal("a")
	s.eventuallyNoCR("a")
	s.catchUpNodes()
	s.requireNeverCreated("b", "c")

	// No event tells of an annotation. It is noticed when it is looked at again.
	s.configure("b", "rendered-2", "rendered-2")
	s.eventuallyCR("b")
	s.eventuallyCR("c")
	require.Equal(t, []string{upgradePostponed}, s.events("RemediationSkipped"), "19.1: once")
}

// testUpgradeAndPause: the upgrade is reported (spec 5.4, 10.4).
func testUpgradeAndPause(t *testing.T, c *cluster, _ *localkube.Process) {
	c.installOptional(t, clusterVersion)
	c.createOptional(t, clusterVersion, "", "version", progressing("True", ""))
	s := newOnPlatform(t, c)
	s.createNodes("a", "b")
	s.createNHC(pause("exam"))
	s.eventuallyEvent("RemediationSkipped", upgradePostponed)
	require.Equal(t, v1alpha1.PhasePaused, s.status().Phase)
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	s.catchUpNodes()
	require.Equal(t, []string{upgradePostponed}, s.events("RemediationSkipped"))

	// One ends, the other goes on, in both orders.
	s.updateNHC(pause())
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
	s.updateNHC(pause("another exam"))
	require.Equal(t, v1alpha1.PhasePaused, s.status().Phase)
	s.catchUpNodes()
	s.requireNeverCreated("a")
	require.Equal(t, []string{upgradePostponed}, s.events("RemediationSkipped"))
	c.deleteOptional(t, clusterVersion, "", "version")
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 0, "b": 0})
	s.catchUpNodes()
	s.requireNeverCreated("a", "b")
	s.updateNHC(pause())
	s.eventuallyCR("a")
	s.eventuallyCR("b")
}

// testEtcd: a control plane node is remediated only if etcd can do without it (spec
// 12.3, 12.4).
func testEtcd(t *testing.T, c *cluster, _ *localkube.Process) {
	c.installOptional(t, clusterVersion)
	s := newOnPlatform(t, c)
	s.createNodes("a", "b")
	s.createBudget("etcd", 0)
	s.createNHC()
	refusal := func(name string) string {
		return fmt.Sprintf("Skipping remediation of %s for preventing control plane / etcd quorum loss, going to retry in a minute", s.node(name))
	}
	// refused and allowed fail a control plane node, and heal it in the end.
	fail := func(name string) {
		t.Helper()
		if s.kubeNode(name) == nil {
			s.createNodes(name)
		}
		s.labelNode(name, map[string]any{"node-role.kubernetes.io/master": ""})
		s.fail(name)
	}
	heal := func(name string) {
		t.Helper()
		s.heal(name)
		s.eventuallyNoCR(name)
		s.eventuallyListed(map[string]int{})
	}
	refused := func(name string) {
		t.Helper()
		fail(name)
		s.eventuallyEvent("RemediationSkipped", refusal(name))
		s.fail("a")
		s.eventuallyCR("a") // P1: the other nodes are none of its business.
		s.eventuallyListed(map[string]int{"a": 1, name: 0})
		s.heal("a")
		s.eventuallyNoCR("a")
		s.requireNeverCreated(name)
	}
	allowed := func(name string) {
		t.Helper()
		fail(name)
		s.eventuallyCR(name)
		require.NotContains(t, s.events("RemediationSkipped"), refusal(name))
		heal(name)
	}

	s.createNodes("first", "neighbour")
	s.createEtcd("etcd-first", "first", corev1.ConditionTrue)
	s.createEtcd("etcd-neighbour", "neighbour", corev1.ConditionTrue)
	refused("first")
	s.setReady("etcd-first", corev1.ConditionUnknown)
	s.fail("b")
	s.eventuallyCR("b")
	s.heal("b")
	s.eventuallyNoCR("b")
	s.requireNeverCreated("first") // 12.3: Unknown refuses
	require.Equal(t, []string{refusal("first")}, s.events("RemediationSkipped"), "19.1: begins to refuse")
	require.Equal(t, []string{refusal("first")}, s.eventsAbout("Node", s.node("first"), "RemediationSkipped"), "19.1: on the Node too")
	s.setReady("etcd-first", corev1.ConditionFalse)
	s.eventuallyCR("first") // 12.4: by the next attempt
	s.requireRefusedOnce("first")
	heal("first")

	allowed("no-pod")
	s.createNodes("no-condition")
	s.createEtcd("etcd-no-condition", "no-condition", "")
	allowed("no-condition")
	s.createNodes("one-works")
	s.createEtcd("etcd-one-works", "one-works", corev1.ConditionFalse)
	s.createEtcd("etcd-one-works-indeed", "one-works", corev1.ConditionTrue)
	refused("one-works")
	heal("one-works")
	s.setAllowed("etcd", 1)
	allowed("neighbour")
	s.createBudget("another", 3)
	refused("two-budgets")
	heal("two-budgets")
	s.deleteBudget("another")
	allowed("one-budget")
	s.deleteBudget("etcd")
	refused("no-budget")
	heal("no-budget")
	s.createBudget("etcd", 3)
	_, err := c.Kubectl(t.Context(), "delete", "-n", "openshift-etcd", "rolebinding", "nhc-controller-etcd")
	require.NoError(t, err)
	s.eventuallyMayReadEtcd(false)
	refused("no-permission")
	c.applyOverlay(t, "openshift")
	s.eventuallyMayReadEtcd(true)
	s.eventuallyCR("no-permission")
	require.Equal(t, metav1.ConditionFalse, s.disabled().Status)
}

func (s *onPlatform) requireRefusedOnce(name string) {
	s.t.Helper()
	require.Len(s.t, s.eventsAbout("Node", s.node(name), "RemediationSkipped"), 1)
	require.Len(s.t, s.crRequests("create", name), 1)
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

// createBudget creates a budget of etcd, which permits this number of disruptions.
func (s *onPlatform) createBudget(name string, allowed int32) {
	s.t.Helper()
	_, err := s.kube.PolicyV1().PodDisruptionBudgets("openshift-etcd").Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "etcd"}}},
	}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.setAllowed(name, allowed)
}

func (s *onPlatform) setAllowed(name string, allowed int32) {
	s.t.Helper()
	budgets := s.dynamic.Resource(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")).Namespace("openshift-etcd")
	s.patch(budgets, name, map[string]any{"status": map[string]any{
		"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 3 - allowed, "expectedPods": 3,
	}}, "status")
}

func (s *onPlatform) deleteBudget(name string) {
	s.t.Helper()
	require.NoError(s.t, s.kube.PolicyV1().PodDisruptionBudgets("openshift-etcd").Delete(s.t.Context(), name, metav1.DeleteOptions{}))
}

// createEtcd creates a pod of etcd on a node.
func (s *onPlatform) createEtcd(name, node string, ready corev1.ConditionStatus) {
	s.t.Helper()
	pods := s.kube.CoreV1().Pods("openshift-etcd")
	s.eventually("pod "+name, func() bool {
		_, err := pods.Create(s.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "etcd"}},
			Spec:       corev1.PodSpec{NodeName: s.node(node), Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}},
		}, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err) // The ServiceAccount takes a moment.
	})
	s.setReady(name, ready)
}

// setReady sets condition Ready of a pod; an empty status removes it.
func (s *onPlatform) setReady(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	pods := s.kube.CoreV1().Pods("openshift-etcd")
	pod, err := pods.Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	if status != "" {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status})
	}
	_, err = pods.UpdateStatus(s.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(s.t, err)
}

// eventuallyMayReadEtcd waits until RBAC lets the controller read the budgets, or
// does not.
func (s *onPlatform) eventuallyMayReadEtcd(permitted bool) {
	s.t.Helper()
	s.eventually("RBAC has followed", func() bool {
		answer, _ := s.Kubectl(s.t.Context(), "auth", "can-i", "list", "poddisruptionbudgets.policy", "-n", "openshift-etcd", "--as", deploy.User)
		return strings.TrimSpace(answer) == map[bool]string{true: "yes", false: "no"}[permitted]
	})
}

// testMetal3Namespace: the namespace of a Metal3 template matters where OpenShift's
// Machines are served (spec 6.1, 6.4).
func testMetal3Namespace(t *testing.T, c *cluster, _ *localkube.Process) {
	requireManifests(t, openShiftMachine, metal3Remediation, metal3RemediationTemplate)
	c.installOptional(t, openShiftMachine, metal3Remediation, metal3RemediationTemplate)
	s := newMetal3Scenario(t, c)
	s.createTemplate(metal3Template())
	s.createNodes("a", "b")
	s.fail("a")
	s.createNHC()
	message := "Metal3RemediationTemplate must be in the openshift-machine-api namespace. It is configured to be in namespace: " + s.name
	s.eventuallyDisabled("RemediationTemplateInvalid")
	s.requireDisabled("RemediationTemplateInvalid", message)
	s.eventuallyListed(map[string]int{"a": 0})
	s.catchUpNodes()
	s.requireNeverCreated("a")

	c.uninstallOptional(t, openShiftMachine)
	s.requireEnabled()
	s.eventuallyCR("a")
	c.installOptional(t, openShiftMachine)
	s.eventuallyDisabled("RemediationTemplateInvalid")
	s.requireDisabled("RemediationTemplateInvalid", message)
	s.heal("a")
	s.eventuallyNoCR("a") // 5.2
	s.eventuallyListed(map[string]int{})

	s.templateIn(machineNamespace, metal3Template())
	s.updateNHC(templateInNamespace(machineNamespace))
	s.requireEnabled()
	s.fail("b")
	s.crIn(machineNamespace, "b")
}

func metal3Template() map[string]any {
	return map[string]any{"template": map[string]any{"spec": map[string]any{
		"strategy": map[string]any{"type": "Reboot", "retryLimit": int64(2), "timeoutSeconds": int64(300)},
	}}}
}

// newMetal3Scenario returns a scenario with Metal3 as its remediator, without a
// template. The kinds are installed.
func newMetal3Scenario(t *testing.T, c *cluster) *onPlatform {
	t.Helper()
	s := &onPlatform{newEmptyScenario(t, c, t.Name(), metal3)}
	s.grant(metal3.templates, templateVerbs...)
	s.grant(metal3.remediations, remediationVerbs...)
	return s
}

// testOpenShiftMachines: a Machine in the namespace of the template is the second
// owner of a CR, and the CR outlives it (spec 11.3, 21.2).
func testOpenShiftMachines(t *testing.T, c *cluster, controller *localkube.Process) {
	requireManifests(t, openShiftMachine)
	c.installOptional(t, openShiftMachine)
	s := newOnPlatform(t, c)
	s.templateIn(machineNamespace, usualTemplate())
	machine := c.createOptional(t, openShiftMachine, machineNamespace, s.name, map[string]any{"spec": map[string]any{}})
	c.createOptional(t, openShiftMachine, s.name, s.name, map[string]any{"spec": map[string]any{}})
	// What a controller finds when it starts: nothing is decided before it knows the
	// Machines.
	controller.Stop()
	nodes := map[string]string{
		"machine":     machineNamespace + "/" + s.name,
		"elsewhere":   s.name + "/" + s.name,
		"unknown":     machineNamespace + "/unknown",
		"unnamed":     machineNamespace + "/",
		"unqualified": s.name,
	}
	for name, annotation := range nodes {
		s.createNodes(name)
		s.annotateNode(name, map[string]any{"machine.openshift.io/machine": annotation})
		s.fail(name)
	}
	_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), s.spec(templateInNamespace(machineNamespace)), metav1.CreateOptions{})
	require.NoError(t, err)
	c.startController(t, "openshift-machines")
	nhc, second := s.firstOwner(), secondOwner("machine.openshift.io/v1beta1", machine)
	for name := range nodes {
		cr := s.crIn(machineNamespace, name)
		if name == "machine" {
			require.Equal(t, []metav1.OwnerReference{nhc, second}, cr.GetOwnerReferences(), "11.3")
		} else {
			require.Equal(t, []metav1.OwnerReference{nhc}, cr.GetOwnerReferences(), "11.3: node %s", name)
		}
	}
	s.requireEnabled()
	s.eventuallyListed(map[string]int{"machine": 1, "elsewhere": 1, "unknown": 1, "unnamed": 1, "unqualified": 1})

	before := s.crIn(machineNamespace, "machine")
	c.deleteOptional(t, openShiftMachine, machineNamespace, s.name)
	s.eventually("the garbage collector has dropped the Machine", func() bool {
		return len(s.crIn(machineNamespace, "machine").GetOwnerReferences()) == 1
	})
	after := s.crIn(machineNamespace, "machine")
	require.Equal(t, before.GetUID(), after.GetUID())
	require.Equal(t, []metav1.OwnerReference{nhc}, after.GetOwnerReferences())
	s.eventuallyListed(map[string]int{"machine": 1, "elsewhere": 1, "unknown": 1, "unnamed": 1, "unqualified": 1})
	require.Equal(t, after.GetUID(), s.entry("machine").Remediations[0].Resource.UID)
	s.heal("machine")
	s.eventually("no CR", func() bool {
		_, err := s.dynamic.Resource(s.kind.remediations).Namespace(machineNamespace).Get(t.Context(), s.node("machine"), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// TestPlatformLater runs the controller as it is meant for any cluster, in one
// where parts of the platforms appear later.
func TestPlatformLater(t *testing.T) {
	t.Parallel()
	c := newCluster(t, localkube.Options{AuditUsers: []string{deploy.User}})
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
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c) })
	}
	requireRunning(t, controller)
}

// testNeitherPlatform: what is not served is not asked for again and again, and a
// control plane node needs no etcd (spec 1.3, 12.3, P3).
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
	begin := time.Now()
	time.Sleep(30 * time.Second)
	s.fail("a") // Again: a sign that the controller is well, and the log complete.
	s.heal("a")
	s.eventuallyNoCR("a")
	end := time.Now()
	asked := func(from, to time.Time) []localkube.Request {
		return s.audited(t, func(r localkube.Request) bool {
			return r.User == deploy.User && r.Time.After(from) && r.Time.Before(to) &&
				(strings.HasPrefix(r.URI, "/api") && r.Resource == "" || r.Group == "authorization.k8s.io")
		})
	}
	require.True(t, slices.ContainsFunc(asked(time.Time{}, begin), func(r localkube.Request) bool { return strings.HasPrefix(r.URI, "/apis/machine.openshift.io/") }),
		"there was a first look")
	require.Empty(t, asked(begin, end), "P3")
	require.Empty(t, s.audited(t, func(r localkube.Request) bool { return r.Namespace == "openshift-etcd" }))
}

// testClusterAPIMachines: a Machine of Cluster API is the second owner of CRs that
// need it, and of no others (spec 11.3).
func testClusterAPIMachines(t *testing.T, c *cluster) {
	requireManifests(t, clusterAPIMachine, metal3Remediation, metal3RemediationTemplate)
	c.applyOverlay(t, "cluster-api")
	c.installOptional(t, clusterAPIMachine, metal3Remediation, metal3RemediationTemplate)
	metal := newMetal3Scenario(t, c)
	metal.createTemplate(metal3Template())
	metal.createNHC()
	metal.requireEnabled() // 6.1: in whatever namespace
	spec := func() map[string]any {
		return map[string]any{"spec": map[string]any{
			"clusterName": "c", "bootstrap": map[string]any{"dataSecretName": "s"},
			"infrastructureRef": map[string]any{"apiGroup": metal3.remediations.Group, "kind": "Metal3Machine", "name": "m"},
		}}
	}
	machine := c.createOptional(t, clusterAPIMachine, metal.name, "m-0", spec())
	for name, annotations := range map[string]map[string]any{
		"machine":   {"cluster.x-k8s.io/machine": "m-0", "cluster.x-k8s.io/cluster-namespace": metal.name},
		"elsewhere": {"cluster.x-k8s.io/machine": "m-0", "cluster.x-k8s.io/cluster-namespace": "default"},
		"unknown":   {"cluster.x-k8s.io/machine": "m-1", "cluster.x-k8s.io/cluster-namespace": metal.name},
		"homeless":  {"cluster.x-k8s.io/machine": "m-0"},
	} {
		metal.createNodes(name)
		metal.annotateNode(name, annotations)
	}
	metal.eventuallyCounts(4, 4)
	// Of the informers of the controller each goes its own way. Each of these tries
	// is a new CR, until one is created that knows the Machine.
	second := secondOwner("cluster.x-k8s.io/v1beta2", machine)
	metal.eventually("a CR with a Machine as its second owner", func() bool {
		metal.fail("machine")
		owners := metal.eventuallyCR("machine").GetOwnerReferences()
		require.Equal(t, metal.firstOwner(), owners[0])
		if len(owners) == 2 {
			require.Equal(t, second, owners[1], "11.3")
			return true
		}
		require.Len(t, owners, 1)
		metal.heal("machine")
		metal.eventuallyNoCR("machine")
		return false
	})
	for _, name := range []string{"elsewhere", "unknown", "homeless"} {
		metal.fail(name)
		require.Equal(t, []metav1.OwnerReference{metal.firstOwner()}, metal.eventuallyCR(name).GetOwnerReferences(), "11.3: %s", name)
	}

	// The same Machine, the same namespace, but another group of remediators.
	other := &onPlatform{newEmptyScenario(t, c, t.Name()+"/other", powerCycle)}
	other.templateIn(metal.name, usualTemplate())
	other.createNHC(templateInNamespace(metal.name))
	other.createNodes("a")
	other.annotateNode("a", map[string]any{"cluster.x-k8s.io/machine": "m-0", "cluster.x-k8s.io/cluster-namespace": metal.name})
	other.fail("a")
	require.Equal(t, []metav1.OwnerReference{other.firstOwner()}, other.crIn(metal.name, "a").GetOwnerReferences(), "11.3")

	uid := metal.cr("machine").GetUID()
	c.deleteOptional(t, clusterAPIMachine, metal.name, "m-0")
	metal.eventually("the garbage collector has dropped the Machine", func() bool { return len(metal.cr("machine").GetOwnerReferences()) == 1 })
	require.Equal(t, uid, metal.cr("machine").GetUID())
	require.Equal(t, []metav1.OwnerReference{metal.firstOwner()}, metal.cr("machine").GetOwnerReferences())
	metal.heal("machine")
	metal.eventuallyNoCR("machine")
}

// testForbiddenMachines: without the permission to read Machines remediation goes on
// (spec 11.3).
func testForbiddenMachines(t *testing.T, c *cluster) {
	requireManifests(t, openShiftMachine)
	c.installOptional(t, openShiftMachine)
	s := newOnPlatform(t, c)
	s.createNodes("a", "b")
	c.createOptional(t, openShiftMachine, s.name, "m", map[string]any{"spec": map[string]any{}})
	s.annotateNode("a", map[string]any{"machine.openshift.io/machine": s.name + "/m"})
	s.createNHC()
	s.fail("a")
	require.Equal(t, []metav1.OwnerReference{s.firstOwner()}, s.eventuallyCR("a").GetOwnerReferences())
	require.Empty(t, s.audited(t, func(r localkube.Request) bool { return r.Group == openShiftMachine.resource.Group && r.Code == 403 }),
		"the permission is asked for, not tried")
}

// testForbiddenClusterVersion: the cluster counts as not being upgraded, and etcd
// that cannot be read refuses (spec 10.2, 12.3).
func testForbiddenClusterVersion(t *testing.T, c *cluster) {
	c.installOptional(t, clusterVersion)
	c.createOptional(t, clusterVersion, "", "version", progressing("True", ""))
	s := newOnPlatform(t, c)
	s.createNodes("a", "cp")
	s.labelNode("cp", map[string]any{"node-role.kubernetes.io/control-plane": ""})
	s.createNHC()
	reviewed := func() bool {
		return len(s.audited(t, func(r localkube.Request) bool {
			return r.URI == "/apis/"+clusterVersion.resource.GroupVersion().String() && r.Code == 200
		})) > 0
	}
	s.eventually("the controller has found the kind", reviewed)
	s.eventually("a control plane node is refused", func() bool {
		s.fail("cp")
		s.eventually("an answer", func() bool { return s.cr("cp") != nil || len(s.events("RemediationSkipped")) > 0 })
		if s.cr("cp") != nil { // It was faster than the look at the kind.
			s.heal("cp")
			s.eventuallyNoCR("cp")
		}
		return len(s.events("RemediationSkipped")) > 0
	})
	require.Contains(t, s.events("RemediationSkipped")[0], "for preventing control plane / etcd quorum loss", "12.3: not as an upgrade")
	s.fail("a")
	s.eventuallyCR("a")
	s.eventuallyListed(map[string]int{"a": 1, "cp": 0})
	require.NotContains(t, s.events("RemediationSkipped"), upgradePostponed, "10.2")
}

// testForbiddenMachineHealthChecks: as long as nobody may look at them, nobody knows
// that there is no conflict (spec 6.1, 6.4, 6.6, 6.9).
func testForbiddenMachineHealthChecks(t *testing.T, c *cluster) {
	requireManifests(t, machineHealthCheck)
	s := newOnPlatform(t, c)
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	s.eventuallyCR("a")
	c.installOptional(t, machineHealthCheck)
	s.eventuallyMessage("RemediationTemplateForbidden", forbidden("get", machineHealthCheck.resource))
	s.requireDisabled("RemediationTemplateForbidden", forbidden("get", machineHealthCheck.resource))
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
