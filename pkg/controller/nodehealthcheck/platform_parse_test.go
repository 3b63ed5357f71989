// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// platformObject returns an object as the API server has it.
func platformObject(text string) *unstructured.Unstructured {
	var content map[string]any
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}

const identity = `"metadata": {"namespace": "ns", "name": "n", "uid": "u", "resourceVersion": "7"}`

// waste is what must not be kept.
var waste = `"labels": {"waste": "waste"}, "annotations": {"waste": "` + strings.Repeat("waste", 1000) + `"}, "managedFields": [{"manager": "waste"}], "finalizers": ["waste"]`

func TestParsePlatform(t *testing.T) {
	t.Parallel()
	metadata := strings.TrimSuffix(identity, "}") + ", " + waste + "}"
	tests := map[string]struct{ object, want string }{
		"6.9 a MachineHealthCheck": {
			object: `{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", ` + metadata + `,
				"spec": {"waste": 1, "unhealthyConditions": [{"type": "Terminating", "status": "True"}]}, "status": {"conditions": ["waste"]}}`,
			want: `{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", ` + identity + `,
				"spec": {"unhealthyConditions": [{"type": "Terminating", "status": "True"}]}}`,
		},
		"10.2 a ClusterVersion": {
			object: `{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", ` + metadata + `,
				"spec": {"unhealthyConditions": ["waste"]}, "status": {"history": ["waste"], "conditions": [{"type": "Progressing", "status": "True"}]}}`,
			want: `{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", ` + identity + `,
				"status": {"conditions": [{"type": "Progressing", "status": "True"}]}}`,
		},
		"11.3 a Machine": {
			object: `{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", ` + metadata + `,
				"spec": {"unhealthyConditions": ["waste"]}, "status": {"conditions": ["waste"]}}`,
			want: `{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", ` + identity + `}`,
		},
		"6.9 one without conditions": {
			object: `{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", ` + identity + `, "spec": {}}`,
			want:   `{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", ` + identity + `}`,
		},
		"10.2 a malformed one": {
			object: `{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", ` + identity + `, "status": "waste"}`,
			want:   `{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", ` + identity + `}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := platformObject(tc.object)
			require.NotNil(t, object)
			before := object.DeepCopy()
			parsed := parsePlatform(object).(*unstructured.Unstructured)
			require.Equal(t, before, object, "reading changes nothing")
			require.Equal(t, platformObject(tc.want), parsed)
			require.Equal(t, parsed, parsePlatform(parsed), "what a cache gives back is parsed again")
		})
	}
}
