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
