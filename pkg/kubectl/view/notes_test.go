// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestNotes: the notes about a Node after several kinds of trouble.
func TestNotes(t *testing.T) {
	t.Parallel()
	tainted := func(taints ...corev1.Taint) *corev1.Node {
		tainted := node("node", ready(corev1.ConditionTrue, time.Hour))
		tainted.Spec.Taints = taints
		return tainted
	}
	called := func(name, uuid, ip string, status corev1.ConditionStatus) *corev1.Node {
		called := node(name, ready(status, time.Hour))
		called.Status.NodeInfo.SystemUUID = uuid
		called.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "host"}, {Type: corev1.NodeInternalIP, Address: ip}}
		return called
	}
	outOfService := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	const left = "It has the taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, and no remediation object stands behind it. " +
		"If nothing repairs the node any more, and its old pods are gone: kubectl taint node node node.kubernetes.io/out-of-service:NoExecute-"
	underway := valid(check(v1alpha1.UnhealthyNode{Name: "node", Remediations: make([]v1alpha1.Remediation, 1)}))
	machineCheck := func(decision v1alpha1.DecisionType) []*machinev1beta1.MachineHealthCheck {
		return []*machinev1beta1.MachineHealthCheck{{Status: machinev1beta1.MachineHealthCheckStatus{UnhealthyMachines: []machinev1beta1.UnhealthyMachine{{Node: "node", Decision: v1alpha1.Decision{Type: decision}}}}}}
	}
	deleting := tainted()
	deleting.DeletionTimestamp, deleting.Finalizers = ago(time.Hour), []string{"x/y", "z"}
	virtual := tainted()
	virtual.Labels = map[string]string{"type": "virtual-kubelet"}
	reported := func(kubelet, source time.Duration) *corev1.Node {
		reported := node("node", ready(corev1.ConditionTrue, time.Hour))
		reported.Status.Conditions[0].LastHeartbeatTime = *ago(kubelet)
		reported.Status.Conditions = append(reported.Status.Conditions, corev1.NodeCondition{Type: "Disk", Status: corev1.ConditionTrue, LastHeartbeatTime: *ago(source)},
			corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, LastHeartbeatTime: *ago(90 * 24 * time.Hour)})
		return reported
	}
	disks := Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{{Spec: v1alpha1.NodeHealthCheckSpec{UnhealthyConditions: []v1alpha1.UnhealthyCondition{{Type: "Disk", Status: corev1.ConditionTrue}}}}}}
	taken := func(key, who string) []string {
		return []string{"It has the taint " + key + ":NoSchedule: " + who + ", and the node is probably not coming back. To begin nothing for it: kubectl nhc pause node/node"}
	}
	taker := func(key string) *corev1.Node {
		return tainted(corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	for name, tc := range map[string]struct {
		node     *corev1.Node
		snapshot Snapshot
		gone     []string
		want     []string
	}{
		"FR-411 being deleted":                             {node: deleting, want: []string{"It is being deleted since 02:00:00 (60m), and waits for its finalizers: x/y, z. Their owners remove them."}},
		"FR-412 the cluster autoscaler":                    {node: taker("ToBeDeletedByClusterAutoscaler"), want: taken("ToBeDeletedByClusterAutoscaler", "the cluster autoscaler removes its machine")},
		"FR-412 Karpenter":                                 {node: taker("karpenter.sh/disrupted"), want: taken("karpenter.sh/disrupted", "Karpenter removes its machine")},
		"FR-413 shut down":                                 {node: taker("node.cloudprovider.kubernetes.io/shutdown"), want: taken("node.cloudprovider.kubernetes.io/shutdown", "its machine was shut down in the cloud")},
		"FR-414 virtual":                                   {node: virtual, want: []string{"It is a virtual node, which no remediation repairs. Leave such nodes out of the health check with matchExpressions: [{key: type, operator: NotIn, values: [virtual-kubelet]}]"}},
		"FR-417 a source that says nothing":                {node: reported(time.Minute, 72*time.Hour), snapshot: disks, want: []string{"Condition Disk=True was last reported 3d ago, although the kubelet reports: does what sets it still run?"}},
		"FR-417 a source that works":                       {node: reported(time.Minute, 10*time.Minute), snapshot: disks},
		"FR-417 no health check looks at it":               {node: reported(time.Minute, 72*time.Hour)},
		"FR-417 the whole node is silent":                  {node: reported(72*time.Hour, 72*time.Hour), snapshot: disks},
		"nothing":                                          {node: tainted(corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}, corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule})},
		"FR-334 a taint that was left behind":              {node: tainted(outOfService), want: []string{left}},
		"FR-334 beside a check that does nothing about it": {node: tainted(outOfService), snapshot: Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{valid(check(v1alpha1.UnhealthyNode{Name: "node"}))}, MachineHealthChecks: machineCheck(v1alpha1.DecisionHeld)}, want: []string{left}},
		"a taint during a remediation":                     {node: tainted(outOfService), snapshot: Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{underway}}},
		"a taint during a remediation of the Machine":      {node: tainted(outOfService), snapshot: Snapshot{MachineHealthChecks: machineCheck(v1alpha1.DecisionRemediating)}},
		"FR-334 a taint of a remediator":                   {node: tainted(corev1.Taint{Key: "medik8s.io/remediation", Value: "self", Effect: corev1.TaintEffectNoExecute}), want: []string{"It has the taint medik8s.io/remediation=self:NoExecute, and no remediation object stands behind it. If nothing repairs the node any more, and its old pods are gone: kubectl taint node node medik8s.io/remediation:NoExecute-"}},
		"FR-311 the same machine under a new name":         {node: called("node", "4C4C4544-A", "10.0.0.1", "Unknown"), snapshot: Snapshot{Nodes: []*corev1.Node{called("node", "4C4C4544-A", "10.0.0.1", "Unknown"), called("new", "4c4c4544-a", "10.0.0.2", "True"), called("other", "4C4C4544-A", "10.0.0.3", "Unknown")}}, want: []string{"Node new is Ready and has the same systemUUID 4C4C4544-A. Is it the same machine under a new name? Then delete this Node: kubectl delete node node"}},
		"FR-311 the same address under a new name":         {node: called("node", "", "10.0.0.1", "Unknown"), snapshot: Snapshot{Nodes: []*corev1.Node{called("new", "", "10.0.0.1", "True"), called("other", "", "10.0.0.2", "True")}}, want: []string{"Node new is Ready and has the same InternalIP 10.0.0.1. Is it the same machine under a new name? Then delete this Node: kubectl delete node node"}},
		"two Ready nodes of one address":                   {node: called("node", "a", "10.0.0.1", "True"), snapshot: Snapshot{Nodes: []*corev1.Node{called("new", "a", "10.0.0.1", "True")}}},
		"FR-325 a Machine that was deleted":                {node: tainted(), gone: []string{"Machine m/m1 of machine.openshift.io"}, want: []string{"Its annotation names Machine m/m1 of machine.openshift.io, which does not exist: nothing replaces this Node. If the machine is gone, too: kubectl delete node node"}},
	} {
		require.Equal(t, tc.want, notes(tc.node, &tc.snapshot, &Details{GoneMachines: tc.gone}, now), name)
	}
	snapshot := &Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{valid(check())}, Nodes: []*corev1.Node{tainted(outOfService)}}
	require.Equal(t, []string{left}, NewExplanation("node", snapshot, &Details{}, now).Notes)
	require.Empty(t, notes(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, &Snapshot{}, &Details{}, now))
}
