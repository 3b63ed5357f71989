// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzSelector: any stored selector selects the same nodes as in Kubernetes, and none if
// it is invalid. The cached part of a Node is enough for that.
func FuzzSelector(f *testing.F) {
	for _, selector := range []string{
		`{}`, `{"matchLabels": {}}`, `{"matchLabels": {"role": "worker"}}`, `{"matchLabels": {"": ""}}`, `{"matchLabels": {"-": "x"}}`, `{"matchLabels": {"role": "a b"}}`,
		`{"matchExpressions": [{"key": "role", "operator": "In", "values": ["worker", "infra"]}]}`,
		`{"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["worker"]}]}`,
		`{"matchExpressions": [{"key": "role", "operator": "Exists"}, {"key": "gone", "operator": "DoesNotExist"}]}`,
		`{"matchExpressions": [{"key": "role", "operator": "In"}]}`, `{"matchExpressions": [{"key": "role", "operator": "Exists", "values": ["x"]}]}`,
		`{"matchExpressions": [{"key": "role", "operator": "Near", "values": ["x"]}]}`, `{"matchExpressions": [{}]}`,
		`{"matchLabels": {"role": "worker"}, "matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["worker"]}]}`,
	} {
		for _, labels := range []string{`{}`, `{"role": "worker"}`, `{"role": ""}`, `{"": "", "zone": "z"}`} {
			f.Add(selector, labels)
		}
	}
	f.Fuzz(func(t *testing.T, selectorText, labelsText string) {
		var selector metav1.LabelSelector
		var labels map[string]string
		if json.Unmarshal([]byte(selectorText), &selector) != nil || json.Unmarshal([]byte(labelsText), &labels) != nil {
			return
		}
		node := testNode("n", func(n *corev1.Node) { n.Labels = labels })
		before := maps.Clone(labels)
		got := selectorOf(selecting("nhc", selector)).Matches(labelSet(node))
		trimmed, err := TrimNode(node)
		require.NoError(t, err)
		require.Equal(t, got, selectorOf(selecting("nhc", selector)).Matches(labelSet(trimmed.(*corev1.Node))))
		require.Equal(t, before, labels)

		reference, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil {
			require.False(t, got, "4.7: an invalid selector selects nothing")
			return
		}
		require.Equal(t, reference.Matches(labelSet(node)), got, "7.1")
		for key, value := range selector.MatchLabels {
			actual, labelled := node.Labels[key]
			require.True(t, !got || labelled && actual == value, "7.1")
		}
	})
}
