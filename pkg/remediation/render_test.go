// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// templateObject is a template as the API server returns it, with metadata of
// which nothing may reach a CR.
func templateObject(t *testing.T, annotations string) *Template {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON([]byte(`{
		"apiVersion": "example.com/v1", "kind": "RebootRemediationTemplate",
		"metadata": {
			"namespace": "remediators", "name": "reboot", "uid": "template-uid", "resourceVersion": "12", "generation": 3,
			"labels": {"leak": "label"}, "annotations": `+annotations+`, "finalizers": ["leak/finalizer"],
			"ownerReferences": [{"apiVersion": "leak/v1", "kind": "Leak", "name": "leak", "uid": "leak"}],
			"managedFields": [{"manager": "leak"}]
		},
		"spec": {"template": {
			"metadata": {"labels": {"leak": "template"}},
			"spec": {"strategy": "reboot", "retries": 3, "steps": [{"name": "off"}, {"name": "on"}]}
		}},
		"status": {"leak": true}
	}`)))
	return ParseTemplate(object)
}

func TestRender(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotations string
		node        Node
		want        string
	}{
		"11.1 11.3 classic": {
			annotations: `{"leak": "annotation"}`,
			node:        sick("node-1"),
			want: `{
				"apiVersion": "example.com/v1", "kind": "RebootRemediation",
				"metadata": {
					"namespace": "remediators", "name": "node-1",
					"annotations": {
						"remediation.medik8s.io/node-name": "node-1",
						"remediation.medik8s.io/template-name": "reboot"
					},
					"labels": {"app.kubernetes.io/part-of": "node-healthcheck-controller"},
					"ownerReferences": [{
						"apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
						"name": "workers", "uid": "workers-uid", "controller": false
					}]
				},
				"spec": {"strategy": "reboot", "retries": 3, "steps": [{"name": "off"}, {"name": "on"}]}
			}`,
		},
		"11.1 a control plane node and a template that supports multiple": {
			annotations: `{"remediation.medik8s.io/multiple-templates-support": "true"}`,
			node:        sick("master-1", func(n *Node) { n.ControlPlane = true }),
			want: `{
				"apiVersion": "example.com/v1", "kind": "RebootRemediation",
				"metadata": {
					"namespace": "remediators", "name": "master-1-92b241e8",
					"annotations": {
						"remediation.medik8s.io/node-name": "master-1",
						"remediation.medik8s.io/template-name": "reboot"
					},
					"labels": {
						"app.kubernetes.io/part-of": "node-healthcheck-controller",
						"remediation.medik8s.io/isControlPlaneNode": ""
					},
					"ownerReferences": [{
						"apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
						"name": "workers", "uid": "workers-uid", "controller": false
					}]
				},
				"spec": {"strategy": "reboot", "retries": 3, "steps": [{"name": "off"}, {"name": "on"}]}
			}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(rendered(tc.node, templateObject(t, tc.annotations)))
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(got))
			require.NotContains(t, string(got), "leak")
		})
	}
}

func TestRenderEmptySpec(t *testing.T) {
	t.Parallel()
	object := rendered(sick("node-1"), reboot(func(t *Template) { t.Spec = map[string]any{} }))
	require.Equal(t, map[string]any{}, object.Object["spec"], "6.1: an empty map is fine")
}

func TestRenderOnlyTrimsOneSuffix(t *testing.T) {
	t.Parallel()
	object := rendered(sick("node-1"), reboot(func(t *Template) { t.Kind = "RebootTemplateTemplate" }))
	require.Equal(t, "RebootTemplate", object.GetKind(), "11.1: the kind without Template")
}

func TestRenderSharesNothing(t *testing.T) {
	t.Parallel()
	node, template := sick("node-1"), templateObject(t, `{}`)
	wantTemplate := template.DeepCopyObject()

	object := rendered(node, template)
	spoil(object.Object)

	require.Equal(t, wantTemplate, runtime.Object(template), "11.1: a deep copy of the template's spec")
	require.Equal(t, "reboot", template.Spec["strategy"])
}

// spoil overwrites everything in a JSON object.
func spoil(m map[string]any) {
	for key, value := range m {
		switch value := value.(type) {
		case map[string]any:
			spoil(value)
		case []any:
			for i := range value {
				if item, ok := value[i].(map[string]any); ok {
					spoil(item)
				}
				value[i] = "spoilt"
			}
		}
		m[key] = "spoilt"
	}
}

// What is rendered is recognised as our own CR for this node and template.
func TestRenderIsParsedBack(t *testing.T) {
	t.Parallel()
	for _, template := range []*Template{reboot(), reboot(supportsMultiple)} {
		parsed := ParseCR(rendered(sick(strings.Repeat("n", 253)), template))
		require.True(t, parsed.OwnedBy(ownerNamed("workers")), "1.4")
		require.Equal(t, strings.Repeat("n", 253), parsed.Node(), "1.4")
		require.True(t, rebootStep().owns(parsed), "1.4")
		_, controlPlane := parsed.Labels[v1alpha1.LabelControlPlane]
		require.False(t, controlPlane, "11.1")
	}
}
