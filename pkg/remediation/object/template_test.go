// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func TestParseTemplate(t *testing.T) {
	t.Parallel()
	got := templateObject(t, `{"remediation.medik8s.io/multiple-templates-support": "", "leak": "annotation"}`)
	require.Equal(t, &object.Template{
		TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "RebootRemediationTemplate"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "remediators", Name: "reboot", UID: "template-uid", ResourceVersion: "12",
			Annotations: map[string]string{v1alpha1.AnnotationMultipleTemplates: ""},
		},
		Spec:         map[string]any{"strategy": "reboot", "retries": int64(3), "steps": []any{map[string]any{"name": "off"}, map[string]any{"name": "on"}}},
		CopiedLabels: map[string]string{"leak": "template"},
	}, got)
}

func TestTemplateSpec(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		raw  string
		want map[string]any
	}{
		"6.1 an empty map is fine":  {raw: `{"spec": {"template": {"spec": {}}}}`, want: map[string]any{}},
		"6.1 a map":                 {raw: `{"spec": {"template": {"spec": {"a": "b"}}}}`, want: map[string]any{"a": "b"}},
		"6.1 null":                  {raw: `{"spec": {"template": {"spec": null}}}`},
		"6.1 a list":                {raw: `{"spec": {"template": {"spec": []}}}`},
		"6.1 a string":              {raw: `{"spec": {"template": {"spec": "x"}}}`},
		"6.1 no spec":               {raw: `{}`},
		"6.1 no template":           {raw: `{"spec": {}}`},
		"6.1 no spec.template.spec": {raw: `{"spec": {"template": {"metadata": {}}}}`},
		"6.1 spec is a string":      {raw: `{"spec": "x"}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var content map[string]any
			require.NoError(t, json.Unmarshal([]byte(tc.raw), &content))
			require.Equal(t, tc.want, object.ParseTemplate(&unstructured.Unstructured{Object: content}).Spec)
		})
	}
}

func TestTemplateSameAs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*object.Template)
		same   bool
	}{
		"21.1 resource version alone, as after a write of status": {change: func(t *object.Template) { t.ResourceVersion = "2" }, same: true},
		"21.1 uid":                       {change: func(t *object.Template) { t.UID = "new" }},
		"21.1 spec":                      {change: func(t *object.Template) { t.Spec = map[string]any{"strategy": "fence"} }},
		"21.1 spec is there no longer":   {change: func(t *object.Template) { t.Spec = nil }},
		"21.1 multiple-templates":        {change: supportsMultiple},
		"21.1 an empty spec is not none": {change: func(t *object.Template) { t.Spec = map[string]any{} }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.same, reboot().SameAs(reboot(tc.change)))
			require.Equal(t, tc.same, reboot(tc.change).SameAs(reboot()), "both ways")
		})
	}
	none, empty := reboot(func(t *object.Template) { t.Spec = nil }), reboot(func(t *object.Template) { t.Spec = map[string]any{} })
	require.False(t, none.SameAs(empty), "6.1: one is invalid, the other is fine")
}

func TestTemplateDeepCopy(t *testing.T) {
	t.Parallel()
	original := reboot(supportsMultiple)
	clone := original.DeepCopyObject().(*object.Template)
	require.Equal(t, original, clone)
	clone.Spec["strategy"] = "spoilt"
	delete(clone.Annotations, v1alpha1.AnnotationMultipleTemplates)
	require.Equal(t, reboot(supportsMultiple), original)
	require.Equal(t, testKind+"Template", original.GetObjectKind().GroupVersionKind().Kind)
}
