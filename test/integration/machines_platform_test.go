// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/machineset"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestMachinesOnOpenShift: beside OpenShift's own controller this one is silent, and with
// OpenShift's CRD it does without the fields that are dropped (spec M3.2, M4).
func TestMachinesOnOpenShift(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.installOptional(t, featureGate)
	gates := func(versions ...bool) map[string]any {
		var list []any
		for i, enabled := range versions {
			version := map[string]any{"version": fmt.Sprintf("4.%d", i)}
			if enabled {
				version["enabled"] = []any{map[string]any{"name": "MachineAPIOperatorDisableMachineHealthCheckController"}}
			}
			list = append(list, version)
		}
		return map[string]any{"status": map[string]any{"featureGates": list}}
	}
	c.createOptional(t, featureGate, "", "cluster", gates(true, false))
	controller := c.startMachineHealthChecks(t, openShiftOverlay)

	var scenarios []*machineScenario
	for _, api := range machineAPIs {
		s := newMachineScenario(t, c, api.machine)
		s.createMachine("a", finalized)
		s.join("a")
		_, err := s.nhc.MachineV1beta1().MachineHealthChecks(s.name).Create(t.Context(), s.check(), metav1.CreateOptions{})
		require.NoError(t, err)
		s.setReady("a", corev1.ConditionUnknown)
		scenarios = append(scenarios, s)
	}
	nothingWritten := func(rule string) {
		for _, s := range scenarios {
			require.Empty(t, s.writes(), "%s: nothing at all is written", rule)
		}
	}
	s := scenarios[0]
	nhc := newEmptyScenario(t, c, t.Name()+"-nhc", powerCycle)
	nhc.createTemplate(usualTemplate())
	nhc.createNHC()
	nhc.eventuallyDisabled("ConflictingMachineHealthCheckDetected") // M4.2: 6.9 is in force.
	require.Nil(t, s.status().ExpectedMachines)
	nothingWritten("M4.2")

	// The gate is on, but the other controller still leads.
	leader := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: foreignLeader, Namespace: machineNamespace},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(3600)),
			AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro()),
		},
	}
	_, err := c.kube.CoordinationV1().Leases(machineNamespace).Create(t.Context(), leader, metav1.CreateOptions{})
	require.NoError(t, err)
	c.patchOptional(t, featureGate, "cluster", gates(true, true))
	patience.Eventually(t, "the other leader is noticed", func() bool {
		lines := logged(t, controller, "Looking after MachineHealthChecks")
		last := lines[len(lines)-1]
		return last["active"] == false && last["cause"] == "another controller leads by lease "+machineNamespace+"/"+foreignLeader
	})
	nothingWritten("M4.1")

	require.NoError(t, c.kube.CoordinationV1().Leases(machineNamespace).Delete(t.Context(), foreignLeader, metav1.DeleteOptions{}))
	for _, s := range scenarios {
		s.eventually("the Machine is being deleted", func() bool { return s.machine("a").GetDeletionTimestamp() != nil })
	}
	nhc.eventuallyEnabled() // M15.1
	s.eventually("the counts are there", func() bool { return s.status().ExpectedMachines != nil })
	require.Empty(t, s.status().UnhealthyMachines, "OpenShift's API has no such field")
	begin := time.Now()
	s.createMachine("b")
	s.join("b")
	s.eventuallyCounts(2, 1)
	s.setReady("b", corev1.ConditionTrue) // Now two syncs that change nothing.
	writes := 0
	for _, r := range s.writes() {
		if r.Time.After(begin) && r.Subresource == "status" {
			writes++
		}
	}
	require.LessOrEqual(t, writes, 3, "M3.2: a field that is dropped is not sent again")

	token := "Bearer " + c.createToken(t, "reader-of-series", true)
	hasSeries := func() bool {
		_, body := c.get(t, controller, token)
		return strings.Contains(body, `mapi_machinehealthcheck_nodes_covered{name="`+s.name+`"`)
	}
	require.True(t, hasSeries())
	c.patchOptional(t, featureGate, "cluster", gates(true, false))
	nhc.eventuallyDisabled("ConflictingMachineHealthCheckDetected")
	begin = time.Now()
	s.setReady("b", corev1.ConditionUnknown)
	time.Sleep(3 * time.Second) // A sync that does nothing leaves no sign; a Machine would be gone within two seconds.
	for _, r := range s.writes() {
		require.False(t, r.Time.After(begin), "M4.2: %s %s", r.Verb, r.URI)
	}
	s.eventually("its series are gone", func() bool { return !hasSeries() })
}

// writes returns the controller's writes of Machines and MachineHealthChecks in the scenario.
func (s *machineScenario) writes() []localkube.Request {
	s.t.Helper()
	return s.audited(s.t, func(r localkube.Request) bool {
		return r.User == deploy.User && isWrite(r) && r.Namespace == s.name
	})
}

func (c *cluster) patchOptional(t *testing.T, kind optionalKind, name string, patch map[string]any) {
	t.Helper()
	content, err := json.Marshal(patch)
	require.NoError(t, err)
	_, err = c.dynamic.Resource(kind.resource).Patch(t.Context(), name, types.MergePatchType, content, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// testMachinesOfClusterAPI: Machines of this cluster are targets, those of other clusters are not
// touched, and control plane Machines are left to their provider (spec M5.3, M13.3).
func testMachinesOfClusterAPI(t *testing.T, c *cluster) {
	s := newMachineScenario(t, c, clusterAPIMachine)
	s.createMachine("worker", finalized)
	s.createMachine("control-plane", finalized, machineLabelled(map[string]string{v1beta1.LabelControlPlane: ""}))
	s.join("worker", "control-plane")
	elsewhere := func(machine *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(machine.Object, "other", "spec", "clusterName"))
	}
	for i := range 20 {
		name := fmt.Sprintf("elsewhere-%d", i)
		s.createMachine(name, finalized, elsewhere)
		require.NoError(t, s.provided.PatchStatus(t.Context(), name, map[string]any{"nodeRef": map[string]any{"name": fmt.Sprintf("not-here-%d", i)}}))
	}
	s.createCheck(func(check *v1beta1.MachineHealthCheck) { check.Spec.NodeStartupTimeout = new("1s") })
	s.eventually("the counts", func() bool {
		status := s.status()
		return *status.ExpectedMachines == 2 && *status.CurrentHealthy == 2 && status.IgnoredMachines != nil && *status.IgnoredMachines == 20
	})
	s.setReady("worker", corev1.ConditionUnknown)
	s.setReady("control-plane", corev1.ConditionUnknown)
	s.eventuallyDecided("worker", "MachineDeleting")
	s.eventuallyDecided("control-plane", "ControlPlaneProvider")
	require.Len(t, s.deleteRequests(""), 1, "M5.3: no Machine of another cluster")
}

// testNodesOfClusters: Machines of Cluster API become targets with the first Node of their Cluster, and cease to be with the
// last one, although nothing else changes (spec M5.3, M19).
func testNodesOfClusters(t *testing.T, c *cluster) {
	s := newMachineScenario(t, c, clusterAPIMachine)
	s.createMachine("a")
	s.createCheck()
	home := s.nodeName("home")
	annotate := func(annotations map[string]any) {
		patch, err := json.Marshal(metadataPatch("annotations", annotations))
		require.NoError(t, err)
		_, err = c.kube.CoreV1().Nodes().Patch(t.Context(), home, types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
	targets := func(want, ignored int) {
		s.eventually(fmt.Sprintf("%d targets, %d of other clusters", want, ignored), func() bool {
			status := s.status()
			return *status.ExpectedMachines == want && (status.IgnoredMachines == nil && ignored == 0 || status.IgnoredMachines != nil && *status.IgnoredMachines == ignored)
		})
	}
	targets(1, 0)
	annotate(map[string]any{"cluster.x-k8s.io/cluster-name": "another"})
	targets(0, 1)
	annotate(map[string]any{"cluster.x-k8s.io/cluster-name": machineset.ClusterName})
	targets(1, 0)
	require.NoError(t, c.kube.CoreV1().Nodes().Delete(t.Context(), home, metav1.DeleteOptions{}))
	targets(0, 1)
	require.NoError(t, s.provided.CreateHome(t.Context(), home))
	targets(1, 0)
}

// TestMachinesOfControlPlane: control plane Machines are remediated one at a time (spec M13). One scenario runs after
// the other, because there is one slot in a cluster.
func TestMachinesOfControlPlane(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startMachineHealthChecks(t, ownOverlay)
	t.Run("deletion", func(t *testing.T) { testControlPlaneReplaced(t, newMachineScenario(t, c, openShiftMachine)) })
	for _, api := range machineAPIs {
		t.Run("template, "+api.name, func(t *testing.T) { testControlPlaneRemediated(t, newMachineScenario(t, c, api.machine)) })
	}
}

// controlPlaneNode labels a Node of the control plane.
var controlPlaneNode = map[string]string{"node-role.kubernetes.io/control-plane": ""}

// testControlPlaneRemediated: of two control plane Machines that fail together, the second gets its remediation object
// when that of the first is gone.
func testControlPlaneRemediated(t *testing.T, s *machineScenario) {
	s.createTemplate()
	for _, name := range []string{"a", "b", "c", "d", "e"} { // Enough for a quorum without two.
		s.createMachine(name, machineLabelled(s.api.controlPlane))
		require.NoError(t, s.provided.Join(t.Context(), name, s.labelled(controlPlaneNode)))
	}
	s.createCheck(fromTemplate)
	s.eventuallyCounts(5, 5)
	s.setReady("a", corev1.ConditionUnknown)
	s.eventuallyDecided("a", "StepRunning")
	s.setReady("b", corev1.ConditionUnknown)
	s.eventuallyDecided("b", "ControlPlaneBusy")
	require.Nil(t, s.remediation("b"), "M13.1")
	s.setReady("a", corev1.ConditionTrue)
	s.eventuallyDecided("b", "StepRunning")
	require.Nil(t, s.remediation("a"), "M13.1")
}

// testControlPlaneReplaced: control plane Machines fail together under two MachineHealthChecks and a NodeHealthCheck.
// They are replaced one at a time.
func testControlPlaneReplaced(t *testing.T, s *machineScenario) {
	c := s.cluster
	// The control plane label alone makes it one; the other control plane nodes are healthy, for etcd.
	joins := func(ctx context.Context, machine string) error {
		return s.provided.Join(ctx, machine, s.labelled(controlPlaneNode))
	}
	set := s.startMachineSet(5, joins)
	s.eventually("all have joined", func() bool {
		nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: scenarioLabel + "=" + s.name})
		require.NoError(t, err)
		return len(nodes.Items) == 5
	})
	all := func(check *v1beta1.MachineHealthCheck) { check.Spec.Selector = metav1.LabelSelector{} }
	s.createCheck(all)
	s.createCheck(all, func(check *v1beta1.MachineHealthCheck) { check.Name = "another" })
	nhc := newEmptyScenario(t, c, t.Name()+"-nhc", powerCycle)
	nhc.createTemplate(usualTemplate())
	nhc.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}}
	})
	s.eventuallyCounts(5, 5)
	for _, machine := range []string{"m1", "m2"} {
		s.setReady(machine, corev1.ConditionUnknown)
	}
	// At any moment, at most one Machine is being deleted or has no Node.
	s.eventually("both are replaced", func() bool {
		list, err := s.machines().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		deleting := 0
		for i := range list.Items {
			if list.Items[i].GetDeletionTimestamp() != nil {
				deleting++
			}
		}
		require.LessOrEqual(t, deleting, 1, "M13.1")
		return s.machine("m1") == nil && s.machine("m2") == nil
	})
	s.eventuallyCounts(5, 5)
	require.Equal(t, []string{"m1", "m2", "m3", "m4", "m5", "m6", "m7"}, set.Created())
	require.Empty(t, nhc.crs(), "M15.1: the Nodes belong to the MachineHealthChecks")
	requests := s.deleteRequests("")
	require.Len(t, requests, 2)
}

// TestLastCheckDeleted: the only MachineHealthCheck of an API is deleted while its Machines drain, which takes hours with
// PodDisruptionBudgets. A NodeHealthCheck leaves their Nodes alone until then (F5). Each API has one
// MachineHealthCheck in this cluster.
func TestLastCheckDeleted(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startMachineHealthChecks(t, ownOverlay)
	t.Run("M10.3", func(t *testing.T) { ofEachAPI(testLeaseUntilGone)(t, c) })
}

// TestMachinesThatNameOneNode: a control plane Machine waits while another one is being deleted, also if a second
// Machine that names the same Node is being deleted, too (N1, spec M13.1).
func TestMachinesThatNameOneNode(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startMachineHealthChecks(t, ownOverlay)
	s := newMachineScenario(t, c, openShiftMachine)
	master := machineLabelled(map[string]string{"machine.openshift.io/cluster-api-machine-role": "master"})
	for _, name := range []string{"m1", "m2", "m3", "m4", "m5"} {
		s.createMachine(name, finalized, master)
	}
	s.join("m1", "m3", "m4", "m5")
	// A stale second record of the same host.
	require.NoError(t, s.provided.PatchStatus(t.Context(), "m2", map[string]any{"nodeRef": map[string]any{"kind": "Node", "name": s.nodeName("m1")}}))
	s.createCheck()
	s.setReady("m3", corev1.ConditionUnknown)
	s.eventuallyDecided("m3", "MachineDeleting")
	s.setReady("m1", corev1.ConditionUnknown)
	s.eventuallyDecided("m1", "AmbiguousNode")
	s.eventuallyDecided("m2", "AmbiguousNode")
	require.NoError(t, s.machines().Delete(t.Context(), "m1", metav1.DeleteOptions{}))
	s.eventually("m2 alone names the Node, and is decided", func() bool {
		entry := s.entry("m2")
		return len(s.deleteRequests("m2")) > 0 || (entry != nil && entry.Decision.Reason == v1alpha1.DecidedControlPlaneBusy)
	})
	require.Empty(t, s.deleteRequests("m2"), "M13.1: m3 of another Node is being deleted")
	s.patchMachine("m1", map[string]any{"finalizers": nil})
	s.eventuallyGone("m1")
	s.eventuallyDecided("m2", "ControlPlaneBusy")
	require.Empty(t, s.deleteRequests("m2"))
	s.patchMachine("m3", map[string]any{"finalizers": nil})
	s.eventually("the slot is free", func() bool { return s.machine("m2").GetDeletionTimestamp() != nil })
}

// testLeaseUntilGone: the lease of a Node is kept until its Machine is gone, also when no
// MachineHealthCheck selects the Machine any more, and then released (spec M10.3).
func testLeaseUntilGone(t *testing.T, s *machineScenario) {
	nhc := newEmptyScenario(t, s.cluster, t.Name()+"-nhc", powerCycle)
	nhc.createTemplate(usualTemplate())
	nhc.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}}
		spec.MinHealthy = new(intOrString("0%"))
	})
	s.createMachine("relabelled", finalized)
	s.createMachine("left", finalized)
	s.join("relabelled", "left")
	nhc.pass(time.Now()) // What is deleted in the second in which its Node appears may have been deleted before.
	s.createCheck()
	for _, machine := range []string{"relabelled", "left"} {
		s.setReady(machine, corev1.ConditionUnknown)
		s.eventuallyDecided(machine, "MachineDeleting")
	}
	s.patchMachine("relabelled", map[string]any{"labels": map[string]any{"role": "none"}})
	refused := func(machine string) bool {
		for _, node := range nhc.status().UnhealthyNodes {
			if node.Name == s.nodeName(machine) {
				return node.Decision != nil && node.Decision.Reason == v1alpha1.DecidedLeaseTaken
			}
		}
		return false
	}
	nhc.eventually("the lease of the Node is respected", func() bool { return refused("relabelled") })
	require.NoError(t, s.mhcs().Delete(t.Context(), s.name, metav1.DeleteOptions{}))
	nhc.eventually("so are both", func() bool { return refused("relabelled") && refused("left") })
	require.Empty(t, nhc.crs(), "M15.2: the Machines are being deleted")
	for _, machine := range []string{"relabelled", "left"} {
		// When that of the first one is released, the controller has looked at the other one, too.
		require.Equal(t, "MachineHealthCheck-"+s.name+"/"+s.name, s.leaseHolder(machine), "M10.3: the lease of %s is kept", machine)
		s.patchMachine(machine, map[string]any{"finalizers": nil})
		s.eventually("the lease is released", func() bool {
			_, err := s.kube.CoordinationV1().Leases("medik8s-leases").Get(t.Context(), "node-"+s.nodeName(machine), metav1.GetOptions{})
			return apierrors.IsNotFound(err) || len(nhc.crs()) > 0 // The NodeHealthCheck may be faster.
		})
	}
}

// leaseHolder returns who holds the lease of the Node of a Machine, empty if there is none.
func (s *machineScenario) leaseHolder(machine string) string {
	s.t.Helper()
	lease, err := s.kube.CoordinationV1().Leases("medik8s-leases").Get(s.t.Context(), "node-"+s.nodeName(machine), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	require.NoError(s.t, err)
	return *lease.Spec.HolderIdentity
}

// testMachinesAndNodes: a Node whose Machine is a target is left to the MachineHealthCheck, until
// that is gone (spec M15).
func testMachinesAndNodes(t *testing.T, s *machineScenario) {
	s.createMachine("a", finalized)
	s.join("a")
	s.createCheck(annotated(v1beta1.AnnotationPaused, "")) // It belongs to a paused one, too.
	nhc := newEmptyScenario(t, s.cluster, t.Name()+"-nhc", powerCycle)
	nhc.createTemplate(usualTemplate())
	nhc.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}}
	})
	s.setReady("a", corev1.ConditionUnknown)
	claim := "MachineHealthCheck " + s.name + "/" + s.name + " looks after the Machine of the node"
	nhc.eventually("the node is held", func() bool {
		nodes := nhc.status().UnhealthyNodes // Before the Machines have been read, it is held because of that.
		return len(nodes) == 1 && nodes[0].Decision != nil && nodes[0].Decision.Reason == "MachineHealthCheck" && nodes[0].Decision.Message == claim
	})
	require.Empty(t, nhc.crs())
	require.NoError(t, s.mhcs().Delete(t.Context(), s.name, metav1.DeleteOptions{}))
	nhc.eventually("the NodeHealthCheck takes over", func() bool { return len(nhc.crs()) == 1 })
	// What runs ends first: the MachineHealthCheck waits for the lease.
	s.createCheck()
	s.eventuallyDecided("a", "LeaseTaken")
	require.Empty(t, s.deleteRequests(""))
}
