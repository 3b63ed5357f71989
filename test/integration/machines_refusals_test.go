// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
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
)

// annotateNode sets annotations of the Node of a Machine.
func (s *machineScenario) annotateNode(machine string, annotations map[string]any) {
	s.t.Helper()
	patch, err := json.Marshal(metadataPatch("annotations", annotations))
	require.NoError(s.t, err)
	_, err = s.kube.CoreV1().Nodes().Patch(s.t.Context(), s.nodeName(machine), types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// testNodeIsUpdated: a Node that reboots for a new machine configuration holds its own Machine only (spec M9.1). F4: it
// held all of them.
func testNodeIsUpdated(t *testing.T, s *machineScenario) {
	s.createMachine("updated", finalized)
	s.createMachine("other", finalized)
	s.join("updated", "other")
	s.annotateNode("updated", map[string]any{"machineconfiguration.openshift.io/currentConfig": "rendered-1", "machineconfiguration.openshift.io/desiredConfig": "rendered-2"})
	s.createCheck()
	s.eventuallyCounts(2, 2)
	s.setReady("updated", corev1.ConditionUnknown)
	s.setReady("other", corev1.ConditionUnknown)
	s.eventuallyDecided("other", "MachineDeleting")
	decision := s.eventuallyDecided("updated", "ClusterUpgrading").Decision
	require.Equal(t, "The machine configuration of Node "+s.nodeName("updated")+" is being updated", decision.Message)
	require.NotNil(t, decision.NextCheckTime, "M9.1: it ends after 30 min")
	require.Empty(t, s.deleteRequests("updated"))
	s.annotateNode("updated", map[string]any{"machineconfiguration.openshift.io/currentConfig": "rendered-2"})
	s.eventuallyDecided("updated", "MachineDeleting")
}

// testPowerlessKeepsNoOther: a MachineHealthCheck that cannot act on a Machine keeps no other from it, although its name
// comes first (spec M7.4).
func testPowerlessKeepsNoOther(t *testing.T, s *machineScenario) {
	s.createTemplate()
	s.createMachine("unowned", unowned)
	s.join("unowned")
	s.createCheck(func(check *v1beta1.MachineHealthCheck) { check.Name = "all" }, atMost(intOrString("0")))
	s.createCheck(fromTemplate)
	s.setReady("unowned", corev1.ConditionUnknown)
	s.eventually("the other one remediates it", func() bool { return s.remediation("unowned") != nil })
}

// testProviderKeepsNoOther is the same for a control plane Machine of Cluster API, which only its provider deletes (spec
// M13.3). F7: nothing happened to it.
func testProviderKeepsNoOther(t *testing.T, c *cluster) {
	s := newMachineScenario(t, c, clusterAPIMachine)
	s.createTemplate()
	s.createMachine("member", finalized, machineLabelled(map[string]string{v1beta1.LabelControlPlane: ""}))
	s.join("member")
	s.createCheck(func(check *v1beta1.MachineHealthCheck) { check.Name = "all" })
	s.createCheck(fromTemplate)
	s.setReady("member", corev1.ConditionUnknown)
	s.eventually("the other one remediates it", func() bool { return s.remediation("member") != nil })
	require.Empty(t, s.deleteRequests(""))
}

// testLeaseOfUpstream: the lease of the upstream operator's own controller, whose holder has no namespace, is left alone
// and respected (spec M4.3). F6: it was deleted.
func testLeaseOfUpstream(t *testing.T, s *machineScenario) {
	s.createMachine("a", finalized)
	s.join("a")
	s.createCheck()
	leases := s.kube.CoordinationV1().Leases("medik8s-leases")
	now := metav1.NowMicro()
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + s.nodeName("a")},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("MachineHealthCheck-" + s.name), LeaseDurationSeconds: new(int32(600)), AcquireTime: &now, RenewTime: &now,
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.setReady("a", corev1.ConditionUnknown)
	s.eventuallyDecided("a", "LeaseTaken")
	kept, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, lease.ResourceVersion, kept.ResourceVersion, "M4.3: no client has written it")
	require.Empty(t, s.deleteRequests(""))
	require.NoError(t, leases.Delete(t.Context(), lease.Name, metav1.DeleteOptions{}))
	s.eventuallyDecided("a", "MachineDeleting")
}

// testRoundsEndByTime: the lease that counts the rounds of an owner ends although no Machine of that owner is left, nor
// the MachineHealthCheck (spec M14.4). F8: it stayed.
func testRoundsEndByTime(t *testing.T, s *machineScenario) {
	s.createMachine("a")
	s.createCheck(func(check *v1beta1.MachineHealthCheck) { check.Spec.NodeStartupTimeout = new("1s") })
	s.eventuallyGone("a")
	leases := s.kube.CoordinationV1().Leases("medik8s-leases")
	name := "machine-owner-" + string(s.owner.UID)
	lease, err := leases.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, s.mhcs().Delete(t.Context(), s.name, metav1.DeleteOptions{}))
	s.eventually("the lease is gone", func() bool {
		_, err := leases.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	require.False(t, time.Now().Before(lease.Spec.RenewTime.Add(3*testBackOffCap)), "M14.3: not before its time")
}

// testAmbiguousNode: the decision names the other Machine (spec M5.4). FR-329: it did not.
func testAmbiguousNode(t *testing.T, s *machineScenario) {
	for _, name := range []string{"m1", "m2"} {
		s.createMachine(name, finalized)
	}
	s.join("m1")
	require.NoError(t, s.provided.PatchStatus(t.Context(), "m2", map[string]any{"nodeRef": map[string]any{"kind": "Node", "name": s.nodeName("m1")}}))
	s.createCheck()
	s.setReady("m1", corev1.ConditionUnknown)
	for machine, other := range map[string]string{"m1": "m2", "m2": "m1"} {
		require.Equal(t, "Machine "+s.name+"/"+other+" also names Node "+s.nodeName("m1"), s.eventuallyDecided(machine, "AmbiguousNode").Decision.Message)
	}
}

// testRepairInPlace: the end of a remediation is awaited for 30 min, which the decision says (spec M12.6).
func testRepairInPlace(t *testing.T, s *machineScenario) {
	s.createTemplate()
	s.createMachine("m1")
	s.join("m1")
	s.createCheck(fromTemplate)
	require.NoError(t, s.kube.CoreV1().Nodes().Delete(t.Context(), s.nodeName("m1"), metav1.DeleteOptions{}))
	var cr *unstructured.Unstructured
	s.eventually("a remediation object", func() bool { cr = s.remediation("m1"); return cr != nil })
	s.eventually("the decision says until when it is awaited", func() bool {
		entry := s.entry("m1")
		return entry != nil && entry.Decision.NextCheckTime != nil && entry.Decision.NextCheckTime.Equal(new(metav1.NewTime(cr.GetCreationTimestamp().Add(30*time.Minute))))
	})
}
