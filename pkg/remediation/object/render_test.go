// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// templateObject is a template as the API server returns it, with metadata of
// which nothing may reach a CR.
func templateObject(t *testing.T, annotations string) *object.Template {
	t.Helper()
	raw := &unstructured.Unstructured{}
	require.NoError(t, raw.UnmarshalJSON([]byte(`{
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
	return object.ParseTemplate(raw)
}

func TestRender(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotations string
		target      object.Target
		want        string
	}{
		"11.1 11.3 classic": {
			annotations: `{"leak": "annotation"}`,
			target:      object.Target{Node: "node-1"},
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
			target:      object.Target{Node: "master-1", ControlPlane: true},
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
			got, err := json.Marshal(rendered(tc.target, templateObject(t, tc.annotations)))
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(got))
			require.NotContains(t, string(got), "leak")
		})
	}
}

func TestRenderEmptySpec(t *testing.T) {
	t.Parallel()
	raw := rendered(object.Target{Node: "node-1"}, reboot(func(t *object.Template) { t.Spec = map[string]any{} }))
	require.Equal(t, map[string]any{}, raw.Object["spec"], "6.1: an empty map is fine")
}

func TestRenderOnlyTrimsOneSuffix(t *testing.T) {
	t.Parallel()
	raw := rendered(object.Target{Node: "node-1"}, reboot(func(t *object.Template) { t.Kind = "RebootTemplateTemplate" }))
	require.Equal(t, "RebootTemplate", raw.GetKind(), "11.1: the kind without Template")
}

func TestRenderSharesNothing(t *testing.T) {
	t.Parallel()
	target, template := object.Target{Node: "node-1"}, templateObject(t, `{}`)
	wantTemplate := template.DeepCopyObject()

	raw := rendered(target, template)
	spoil(raw.Object)

	require.Equal(t, wantTemplate, runtime.Object(template), "11.1: a deep copy of the template's spec")
	require.Equal(t, "reboot", template.Spec["strategy"])
}

// spoil overwrites everything in a JSON raw.
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
