// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

func testCondition(typ corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{Type: typ, Status: status, LastTransitionTime: metav1.NewTime(since)}
}

func conditions(all ...corev1.NodeCondition) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions = all }
}

// TestNodeMatters is the rows of spec 21.1 about Nodes, except those about labels of
// selectors.
func TestNodeMatters(t *testing.T) {
	t.Parallel()
	ready, disk := testCondition("Ready", "True", epoch), testCondition("DiskPressure", "False", epoch)
	heartbeat := ready
	heartbeat.LastHeartbeatTime = metav1.NewTime(epoch.Add(time.Hour))
	heartbeat.Reason, heartbeat.Message = "KubeletReady", "kubelet is posting ready status"
	const exclude, confirmed = v1alpha1.LabelExclude, v1alpha1.AnnotationManuallyConfirmedHealthy
	tests := map[string]struct {
		old, node func(*corev1.Node)
		matters   bool
	}{
		"21.1 nothing":                         {},
		"21.1 a heartbeat":                     {node: conditions(heartbeat, disk)},
		"21.1 order of conditions":             {node: conditions(disk, ready)},
		"21.1 other labels":                    {node: labelled("example.com/x", "y")},
		"21.1 other annotations":               {node: annotated("example.com/x", "y")},
		"21.1 status of a condition":           {node: conditions(testCondition("Ready", "False", epoch), disk), matters: true},
		"21.1 transition time of a condition":  {node: conditions(testCondition("Ready", "True", epoch.Add(1)), disk), matters: true},
		"21.1 type of a condition":             {node: conditions(ready, testCondition("MemoryPressure", "False", epoch)), matters: true},
		"21.1 a condition more":                {node: conditions(ready, disk, testCondition("Terminating", "True", epoch)), matters: true},
		"21.1 a condition less":                {node: conditions(ready), matters: true},
		"21.1 the exclusion label set":         {node: labelled(exclude, "true"), matters: true},
		"21.1 the exclusion label removed":     {old: labelled(exclude, "true"), matters: true},
		"21.1 the exclusion label set empty":   {node: labelled(exclude, ""), matters: true},
		"21.1 the exclusion label made empty":  {old: labelled(exclude, "false"), node: labelled(exclude, ""), matters: true},
		"21.1 the empty label removed":         {old: labelled(exclude, ""), matters: true},
		"21.1 manual confirmation added":       {node: annotated(confirmed, ""), matters: true},
		"21.1 manual confirmation removed":     {old: annotated(confirmed, "yes"), matters: true},
		"10.3 an update of its configuration":  {node: annotated(remediation.AnnotationDesiredConfig, "b"), matters: true},
		"10.3 the end of it":                   {old: annotated(remediation.AnnotationDesiredConfig, "b"), matters: true},
		"16.6 its value does not count":        {old: annotated(confirmed, ""), node: annotated(confirmed, "yes")},
		"12.1 control plane":                   {node: labelled("node-role.kubernetes.io/control-plane", ""), matters: true},
		"12.1 master":                          {node: labelled("node-role.kubernetes.io/master", "x"), matters: true},
		"12.1 controlplane":                    {node: labelled("node-role.kubernetes.io/controlplane", "true"), matters: true},
		"12.1 etcd":                            {node: labelled("node-role.kubernetes.io/etcd", "true"), matters: true},
		"12.5 etcd decides about the quorum":   {old: labelled("node-role.kubernetes.io/etcd", ""), node: labelled("node-role.kubernetes.io/control-plane", ""), matters: true},
		"12.1 both are not more than one":      {old: labelled("node-role.kubernetes.io/master", ""), node: labelled("node-role.kubernetes.io/control-plane", "")},
		"17.1 deleted and created in between":  {node: func(n *corev1.Node) { n.UID = "another" }, matters: true},
		"21.1 a condition instead of its twin": {old: conditions(ready, ready), node: conditions(ready, testCondition("Ready", "False", epoch)), matters: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build := func(change func(*corev1.Node)) *corev1.Node {
				n := testNode("n", conditions(ready, disk))
				if change != nil {
					change(n)
				}
				return n
			}
			require.Equal(t, tc.matters, nodeMatters(build(tc.old), build(tc.node)))
			require.Equal(t, tc.matters, nodeMatters(build(tc.node), build(tc.old)), "P2: both ways")
		})
	}
}

// TestTrimNodeOfTwoConditions: a second condition of a type, which a JSON patch has appended, does not reach the caches
// beside the first one (spec 7.2).
func TestTrimNodeOfTwoConditions(t *testing.T) {
	t.Parallel()
	trimmed, err := TrimNode(testNode("n", conditions(testCondition("Ready", "True", epoch), testCondition("Ready", "False", epoch))))
	require.NoError(t, err)
	require.Equal(t, testNode("n", conditions(testCondition("Ready", "False", epoch))).Status, trimmed.(*corev1.Node).Status)
}

func TestTrimNode(t *testing.T) {
	t.Parallel()
	full, want := testNode("n", labelled("a", "b"), annotated("example.com/x", "y")), testNode("n", labelled("a", "b"), conditions(testCondition("Ready", "True", epoch)))
	for _, key := range []string{
		v1alpha1.AnnotationManuallyConfirmedHealthy, "machine.openshift.io/machine", "cluster.x-k8s.io/machine", "cluster.x-k8s.io/cluster-namespace",
		"machineconfiguration.openshift.io/currentConfig", "machineconfiguration.openshift.io/desiredConfig",
	} {
		metav1.SetMetaDataAnnotation(&full.ObjectMeta, key, key)
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, key, key)
	}
	full.ResourceVersion, full.Generation, full.CreationTimestamp = "7", 2, metav1.NewTime(epoch)
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	full.Finalizers, full.OwnerReferences = []string{"x"}, []metav1.OwnerReference{{Name: "x"}}
	full.Spec = corev1.NodeSpec{PodCIDR: "10.0.0.0/8", Taints: []corev1.Taint{{Key: "x"}}}
	full.Status = corev1.NodeStatus{
		Capacity: corev1.ResourceList{"cpu": resource.MustParse("1")}, Images: []corev1.ContainerImage{{Names: []string{"i"}}},
		Conditions: []corev1.NodeCondition{{
			Type: "Ready", Status: "True", LastTransitionTime: metav1.NewTime(epoch), LastHeartbeatTime: metav1.NewTime(epoch), Reason: "r", Message: "m",
		}},
	}
	before := full.DeepCopy()
	trimmed, err := TrimNode(full)
	require.NoError(t, err)
	want.ResourceVersion = "7"
	want.CreationTimestamp = full.CreationTimestamp
	want.Status.Conditions[0].Reason, want.Status.Conditions[0].LastHeartbeatTime = "r", metav1.NewTime(epoch)
	require.Equal(t, want, trimmed)
	require.Equal(t, before, full, "what was given stays as it is")
	again, err := TrimNode(trimmed)
	require.NoError(t, err)
	require.Equal(t, trimmed, again, "it may be applied twice")
	require.False(t, nodeMatters(full, trimmed.(*corev1.Node)), "nothing that matters is lost")
	other, err := TrimNode("anything")
	require.NoError(t, err)
	require.Equal(t, "anything", other, "tombstones and the like pass")
}
