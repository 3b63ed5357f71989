// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

func parsed(t *testing.T, text string) *Machine {
	t.Helper()
	var content map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &content))
	return ParseMachine(&unstructured.Unstructured{Object: content})
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	const openShift, cluster = `"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine"`, `"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine"`
	at := time.Date(2026, 1, 1, 0, 5, 0, 0, time.UTC)
	typed := func(apiVersion string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: apiVersion, Kind: "Machine"}
	}
	openShiftType, clusterType := typed("machine.openshift.io/v1beta1"), typed("cluster.x-k8s.io/v1beta2")
	condition := func(fields string) string { return `{` + cluster + `, "status": {"conditions": [` + fields + `]}}` }
	tests := map[string]struct {
		text string
		want Machine
	}{
		"M5.1 nothing is set": {text: `{}`},
		"M5.1 all that is read of one of OpenShift": {
			text: `{` + openShift + `, "metadata": {"name": "m", "namespace": "machines", "uid": "m-uid", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
				"deletionTimestamp": "2026-01-01T00:05:00Z", "labels": {"a": "b"}, "ownerReferences": [{"apiVersion": "v", "kind": "MachineSet", "name": "s", "uid": "u", "controller": true}],
				"finalizers": ["f"], "managedFields": [{}], "generation": 4},
				"spec": {"providerSpec": {}}, "status": {"phase": "Running", "nodeRef": {"name": "n", "uid": "another"}, "lastUpdated": "2026-01-01T00:05:00Z", "addresses": [{}]}}`,
			want: Machine{TypeMeta: openShiftType, Phase: "Running", Node: "n", Started: at, ObjectMeta: metav1.ObjectMeta{
				Namespace: "machines", Name: "m", UID: "m-uid", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(epoch.Local()), DeletionTimestamp: new(metav1.NewTime(at.Local())),
				Labels: map[string]string{"a": "b"}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v", Kind: "MachineSet", Name: "s", UID: "u", Controller: new(true)}},
			}},
		},
		"M2 the annotations that are read": {
			text: `{` + openShift + `, "metadata": {"annotations": {"cluster.x-k8s.io/paused": "", "cluster.x-k8s.io/skip-remediation": "x", "host.metal3.io/external-remediation": "",
				"machine.openshift.io/remediation-strategy": "external-baremetal", "remediation.metal3.io/powered-off-for-remediation": "", "example.com/other": "y"}}}`,
			want: Machine{TypeMeta: openShiftType, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				"cluster.x-k8s.io/paused": "", "cluster.x-k8s.io/skip-remediation": "x", "host.metal3.io/external-remediation": "",
				"machine.openshift.io/remediation-strategy": "external-baremetal", "remediation.metal3.io/powered-off-for-remediation": "",
			}}},
		},
		"M11.2 S13 a strategy is not for Machines of Cluster API": {
			text: `{` + cluster + `, "metadata": {"annotations": {"cluster.x-k8s.io/paused": "", "machine.openshift.io/remediation-strategy": "external-baremetal"}}}`,
			want: Machine{TypeMeta: clusterType, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"cluster.x-k8s.io/paused": ""}}},
		},
		"M9.2 another API is authoritative": {text: `{` + openShift + `, "status": {"authoritativeAPI": "ClusterAPI"}}`, want: Machine{TypeMeta: openShiftType, Unmanaged: true}},
		"M9.2 while it is handed over":      {text: `{` + openShift + `, "status": {"authoritativeAPI": "Migrating"}}`, want: Machine{TypeMeta: openShiftType, Unmanaged: true}},
		"M9.2 this API is authoritative":    {text: `{` + openShift + `, "status": {"authoritativeAPI": "MachineAPI"}}`, want: Machine{TypeMeta: openShiftType}},
		"M9.2 nothing is said about that":   {text: `{` + openShift + `, "status": {"authoritativeAPI": ""}}`, want: Machine{TypeMeta: openShiftType}},
		"M5.2 all that is read of Cluster API": {
			text: `{` + cluster + `, "spec": {"clusterName": "here"}, "status": {"phase": "Failed", "nodeRef": {"name": "n"}, "lastUpdated": "2030-01-01T00:00:00Z", "conditions": [
				{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}, {"type": "InfrastructureReady", "status": "True", "lastTransitionTime": "2026-01-01T00:05:00Z"}]}}`,
			want: Machine{TypeMeta: clusterType, Phase: "Failed", Node: "n", Started: at, Cluster: "here"},
		},
		"M5.2 v1beta1 is read alike": {
			text: `{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "spec": {"clusterName": "here"}, "status": {"nodeRef": {"name": "n"}, "conditions": [
				{"type": "InfrastructureReady", "status": "True", "lastTransitionTime": "2026-01-01T00:05:00Z"}]}}`,
			want: Machine{TypeMeta: typed("cluster.x-k8s.io/v1beta1"), Node: "n", Started: at, Cluster: "here"},
		},
		"M6.3 the infrastructure is not ready":       {text: condition(`{"type": "InfrastructureReady", "status": "False", "lastTransitionTime": "2026-01-01T00:05:00Z"}`), want: Machine{TypeMeta: clusterType}},
		"M6.3 ready, without a time":                 {text: condition(`{"type": "InfrastructureReady", "status": "True"}`), want: Machine{TypeMeta: clusterType}},
		"M5.1 since a number":                        {text: condition(`{"type": "InfrastructureReady", "status": "True", "lastTransitionTime": 7}`), want: Machine{TypeMeta: clusterType}},
		"M5.1 a good condition among malformed ones": {text: condition(`1, null, [], {"type": {}, "status": []}, {"type": "InfrastructureReady", "status": "True", "lastTransitionTime": "2026-01-01T00:05:00Z"}`), want: Machine{TypeMeta: clusterType, Started: at}},
		"M5.1 conditions are no list":                {text: `{` + cluster + `, "status": {"conditions": {"type": "InfrastructureReady"}}}`, want: Machine{TypeMeta: clusterType}},
		"M5.1 a time that is none":                   {text: `{` + openShift + `, "status": {"lastUpdated": "yesterday"}}`, want: Machine{TypeMeta: openShiftType}},
		"M5.1 a year after the last":                 {text: `{` + openShift + `, "status": {"lastUpdated": "9999-12-31T23:59:59-14:00"}}`, want: Machine{TypeMeta: openShiftType}},
		"M5.1 a year before the first":               {text: `{` + openShift + `, "status": {"lastUpdated": "0000-01-01T00:00:00+14:00"}}`, want: Machine{TypeMeta: openShiftType}},
		"M5.1 everything is a number":                {text: `{` + openShift + `, "metadata": {"name": "m", "labels": 1, "annotations": 2, "ownerReferences": 3, "creationTimestamp": 4, "deletionTimestamp": 5, "uid": 6}, "spec": 7, "status": {"phase": 8, "nodeRef": 9, "lastUpdated": 10, "authoritativeAPI": 11}}`, want: Machine{TypeMeta: openShiftType, ObjectMeta: metav1.ObjectMeta{Name: "m"}}},
		"M5.1 everything is null":                    {text: `{` + openShift + `, "metadata": {"name": "m", "labels": null, "annotations": null, "ownerReferences": null, "creationTimestamp": null, "deletionTimestamp": null}, "spec": null, "status": null}`, want: Machine{TypeMeta: openShiftType, ObjectMeta: metav1.ObjectMeta{Name: "m"}}},
		"M5.1 the name of the Node is a list":        {text: `{` + openShift + `, "status": {"nodeRef": {"name": ["n"]}}}`, want: Machine{TypeMeta: openShiftType}},
		"M5.1 the status is a list":                  {text: `{` + cluster + `, "spec": {"clusterName": {}}, "status": []}`, want: Machine{TypeMeta: clusterType}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, *parsed(t, tc.text))
		})
	}
}

func TestParseMachineSharesNothing(t *testing.T) {
	t.Parallel()
	raw := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machine.openshift.io/v1beta1",
		"metadata": map[string]any{
			"labels": map[string]any{"a": "b"}, "annotations": map[string]any{v1beta1.AnnotationPaused: "x"},
			"ownerReferences": []any{map[string]any{"name": "set", "controller": true}}, "deletionTimestamp": "2026-01-01T00:00:00Z",
		},
	}}
	got := ParseMachine(raw)
	want := got.DeepCopyObject()
	metadata := raw.Object["metadata"].(map[string]any)
	metadata["labels"].(map[string]any)["a"] = "spoilt"
	metadata["annotations"].(map[string]any)[v1beta1.AnnotationPaused] = "spoilt"
	metadata["ownerReferences"].([]any)[0].(map[string]any)["name"] = "spoilt"
	require.Equal(t, want, got)
}

func TestMachine(t *testing.T) {
	t.Parallel()
	role := func(value string) func(*Machine) {
		return func(m *Machine) { m.Labels = map[string]string{v1beta1.LabelRole: value} }
	}
	require.True(t, machine("m", role("master")).ControlPlane(), "M2: a control plane Machine of OpenShift")
	require.False(t, machine("m", role("worker")).ControlPlane(), "M2")
	require.True(t, machine("m", func(m *Machine) { m.Labels = map[string]string{v1beta1.LabelControlPlane: "any"} }).ControlPlane(), "M2: of Cluster API, any value")
	require.False(t, machine("m").ControlPlane())
	require.Equal(t, "set", machine("m").Owner().Name)
	require.Nil(t, machine("m", noOwner).Owner())
	require.Nil(t, machine("m", func(m *Machine) { m.OwnerReferences[0].Controller = nil }).Owner(), "M1.4: only one with controller: true is the owner")
	require.True(t, machine("m", firstKey).Has(v1beta1.AnnotationExternalRemediation), "M2: presence, whatever the value is")
	require.Equal(t, v1beta1.MachineAPICluster, machine("m", ofClusterAPI).API())
	require.True(t, machine("m", failedPhase).Failed())
	require.Equal(t, "Machine", machine("m").GetObjectKind().GroupVersionKind().Kind)
	require.Equal(t, testNamespace, machine("m").Reference().Namespace)
}

func TestMachineSameAs(t *testing.T) {
	t.Parallel()
	starting := func(m *Machine) { m.Node = "" }
	for name, tc := range map[string]struct {
		base, change func(*Machine)
		same         bool
	}{
		"M19 a resourceVersion alone is no news":          {change: func(m *Machine) { m.ResourceVersion = "8" }, same: true},
		"M19 a status that changes while there is a Node": {change: func(m *Machine) { m.Started = epoch }, same: true},
		"M19 the start time":                              {base: starting, change: func(m *Machine) { m.Started = epoch }},
		"M19 uid":                                         {change: func(m *Machine) { m.UID = "new" }},
		"M19 phase":                                       {change: failedPhase},
		"M19 nodeRef":                                     {change: noNode},
		"M19 labels":                                      {change: func(m *Machine) { m.Labels = map[string]string{"a": "b"} }},
		"M19 an annotation":                               {change: firstKey},
		"M19 the owner":                                   {change: noOwner},
		"M19 another owner":                               {change: ownedBy("another")},
		"M19 the deletion":                                {change: deletingMachine},
		"M19 the Cluster":                                 {change: func(m *Machine) { m.Cluster = "there" }},
		"M9.2 the authoritative API":                      {change: func(m *Machine) { m.Unmanaged = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, changed := machine("m"), machine("m")
			if tc.base != nil {
				tc.base(base)
				tc.base(changed)
			}
			require.True(t, base.SameAs(changed))
			tc.change(changed)
			require.Equal(t, tc.same, base.SameAs(changed))
			require.Equal(t, tc.same, changed.SameAs(base), "both ways")
		})
	}
}

func TestMachineDeepCopy(t *testing.T) {
	t.Parallel()
	original := machine("m", firstKey, deletingMachine)
	clone := original.DeepCopyObject().(*Machine)
	require.Equal(t, original, clone)
	clone.Annotations[v1beta1.AnnotationExternalRemediation] = "spoilt"
	clone.OwnerReferences[0].Name = "spoilt"
	clone.DeletionTimestamp.Time = epoch.Add(time.Hour)
	require.Equal(t, machine("m", firstKey, deletingMachine), original)
}
