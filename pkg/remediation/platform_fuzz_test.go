// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// FuzzPlatformObjects: objects of any shape can be judged, and a second one never
// makes an upgrade or a conflict go away.
func FuzzPlatformObjects(f *testing.F) {
	for _, seed := range append(seeds,
		`{"spec": {"unhealthyConditions": [{"type": "Terminating"}]}}`,
		`{"spec": {"unhealthyConditions": [null]}}`,
		`{"spec": {"unhealthyConditions": [{"type": {}}, 1.5, [[]]]}}`,
		`{"status": {"conditions": [{"type": "Progressing", "status": "True"}]}}`,
		`{"status": {"conditions": [null, {"type": ["Progressing"], "status": {}}]}}`,
	) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		object := fuzzed(text)
		if object == nil {
			return
		}
		before := object.DeepCopy()
		one, two := []*unstructured.Unstructured{object}, []*unstructured.Unstructured{{}, object}
		Conflicts(one)
		require.True(t, Conflicts(two), "6.9")
		require.Equal(t, Progressing(one), Progressing(two), "10.2")
		require.Equal(t, before, object, "reading changes nothing")
		node := sick("n", func(n *Node) { n.Machines = &Machines{OpenShift: object, ClusterAPI: object} })
		require.LessOrEqual(t, len(rendered(node, reboot()).GetOwnerReferences()), 2, "11.3")
	})
}

// FuzzMachineNames: whatever an annotation says, what is made of it is whole.
func FuzzMachineNames(f *testing.F) {
	for _, seed := range []string{"", "/", "//", "a", "a/", "/b", "a/b", "a/b/", "a/b/c", "a//b", " / "} {
		f.Add(seed, seed, seed)
	}
	f.Fuzz(func(t *testing.T, machine, name, namespace string) {
		openShift, clusterAPI := MachineNames(map[string]string{
			"machine.openshift.io/machine": machine, "cluster.x-k8s.io/machine": name, "cluster.x-k8s.io/cluster-namespace": namespace,
		})
		if openShift.Name != "" || openShift.Namespace != "" {
			require.Equal(t, machine, openShift.Namespace+"/"+openShift.Name)
			require.NotEmpty(t, openShift.Namespace)
			require.NotEmpty(t, openShift.Name)
			require.NotContains(t, openShift.Name, "/")
		}
		require.Equal(t, name != "" && namespace != "", clusterAPI.Name != "" && clusterAPI.Namespace != "")
		require.Equal(t, clusterAPI.Name == "", clusterAPI.Namespace == "")
	})
}

// FuzzEtcdAllows: budgets and pods of any content can be judged; more than one
// budget allows nothing, and neither does another pod.
func FuzzEtcdAllows(f *testing.F) {
	for _, budget := range []string{
		`{}`,
		`{"spec": {"selector": null}}`,
		`{"spec": {"selector": {}}, "status": {"disruptionsAllowed": -1}}`,
		`{"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}`,
		`{"spec": {"selector": {"matchLabels": {"app": "etcd"}}}, "status": {"disruptionsAllowed": 2}}`,
		`{"spec": {"selector": {"matchLabels": {"app": "etcd"}}}}`,
	} {
		for _, pod := range []string{
			`{}`,
			`{"metadata": {"labels": {"app": "etcd"}}, "spec": {"nodeName": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`,
			`{"metadata": {"labels": {"app": "etcd"}}, "spec": {"nodeName": "n"}, "status": {"conditions": [{"type": "Ready"}, {}]}}`,
		} {
			f.Add(budget, pod)
		}
	}
	f.Fuzz(func(t *testing.T, budgetText, podText string) {
		var budget policyv1.PodDisruptionBudget
		var pod corev1.Pod
		if json.Unmarshal([]byte(budgetText), &budget) != nil || json.Unmarshal([]byte(podText), &pod) != nil {
			return
		}
		one, pods := []policyv1.PodDisruptionBudget{budget}, []corev1.Pod{pod}
		require.False(t, EtcdAllows(nil, pods, "n"), "12.3")
		require.False(t, EtcdAllows(append(one, budget), pods, "n"), "12.3")
		if budget.Status.DisruptionsAllowed >= 1 {
			require.True(t, EtcdAllows(one, pods, "n"), "12.3")
			return
		}
		if EtcdAllows(one, append(pods, pod), "n") {
			require.True(t, EtcdAllows(one, pods, "n"), "12.3: a pod never helps")
		}
		if EtcdAllows(one, pods, "n") {
			require.True(t, EtcdAllows(one, nil, "n"), "12.3: a pod never helps")
		}
	})
}

// The selector of a budget is read as the API means it: one that is missing matches
// no pod, an empty one every pod (spec 12.3).
func TestEtcdAllowsSelector(t *testing.T) {
	t.Parallel()
	const pod = `{"spec": {"nodeName": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`
	for budget, want := range map[string]bool{
		`{}`:                         true,
		`{"spec": {"selector": {}}}`: false,
		`{"spec": {"selector": {}}, "status": {"disruptionsAllowed": 2}}`:  true,
		`{"spec": {"selector": {}}, "status": {"disruptionsAllowed": -1}}`: false,
	} {
		var b policyv1.PodDisruptionBudget
		var p corev1.Pod
		require.NoError(t, json.Unmarshal([]byte(budget), &b))
		require.NoError(t, json.Unmarshal([]byte(pod), &p))
		require.Equal(t, want, EtcdAllows([]policyv1.PodDisruptionBudget{b}, []corev1.Pod{p}, "n"), "12.3 %s", budget)
	}
}
