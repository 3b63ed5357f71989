// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func TestParseTemplate(t *testing.T) {
	t.Parallel()
	got := templateObject(t, `{"remediation.medik8s.io/multiple-templates-support": "", "leak": "annotation"}`)
	require.Equal(t, &Template{
		TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "RebootRemediationTemplate"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "remediators", Name: "reboot", UID: "template-uid", ResourceVersion: "12",
			Annotations: map[string]string{v1alpha1.AnnotationMultipleTemplates: ""},
		},
		Spec: map[string]any{"strategy": "reboot", "retries": int64(3), "steps": []any{map[string]any{"name": "off"}, map[string]any{"name": "on"}}},
	}, got)
}

func TestTemplateSpec(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		object string
		want   map[string]any
	}{
		"6.1 an empty map is fine":  {object: `{"spec": {"template": {"spec": {}}}}`, want: map[string]any{}},
		"6.1 a map":                 {object: `{"spec": {"template": {"spec": {"a": "b"}}}}`, want: map[string]any{"a": "b"}},
		"6.1 null":                  {object: `{"spec": {"template": {"spec": null}}}`},
		"6.1 a list":                {object: `{"spec": {"template": {"spec": []}}}`},
		"6.1 a string":              {object: `{"spec": {"template": {"spec": "x"}}}`},
		"6.1 no spec":               {object: `{}`},
		"6.1 no template":           {object: `{"spec": {}}`},
		"6.1 no spec.template.spec": {object: `{"spec": {"template": {"metadata": {}}}}`},
		"6.1 spec is a string":      {object: `{"spec": "x"}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, ParseTemplate(fuzzed(tc.object)).Spec)
		})
	}
}

func TestTemplateSameAs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*Template)
		same   bool
	}{
		"21.1 resource version alone, as after a write of status": {change: func(t *Template) { t.ResourceVersion = "2" }, same: true},
		"21.1 uid":                       {change: func(t *Template) { t.UID = "new" }},
		"21.1 spec":                      {change: func(t *Template) { t.Spec = map[string]any{"strategy": "fence"} }},
		"21.1 spec is there no longer":   {change: func(t *Template) { t.Spec = nil }},
		"21.1 multiple-templates":        {change: supportsMultiple},
		"21.1 an empty spec is not none": {change: func(t *Template) { t.Spec = map[string]any{} }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.same, reboot().SameAs(reboot(tc.change)))
			require.Equal(t, tc.same, reboot(tc.change).SameAs(reboot()), "both ways")
		})
	}
	none, empty := reboot(func(t *Template) { t.Spec = nil }), reboot(func(t *Template) { t.Spec = map[string]any{} })
	require.False(t, none.SameAs(empty), "6.1: one is invalid, the other is fine")
}

func TestTemplateDeepCopy(t *testing.T) {
	t.Parallel()
	original := reboot(supportsMultiple)
	clone := original.DeepCopyObject().(*Template)
	require.Equal(t, original, clone)
	clone.Spec["strategy"] = "spoilt"
	delete(clone.Annotations, v1alpha1.AnnotationMultipleTemplates)
	require.Equal(t, reboot(supportsMultiple), original)
	require.Equal(t, testKind+"Template", original.GetObjectKind().GroupVersionKind().Kind)
}

// TestStepsAreRankedByOrder shuffles the list: order alone ranks.
func TestStepsAreRankedByOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	orders := []int32{-7, 0, 3, 10, 2147483647}
	escalation := func(order int32) v1alpha1.EscalatingRemediation {
		return v1alpha1.EscalatingRemediation{
			Order: order, RemediationTemplate: corev1.ObjectReference{Name: fmt.Sprint("template", order)}, Timeout: metav1.Duration{Duration: time.Hour},
		}
	}
	for range 50 {
		var spec v1alpha1.NodeHealthCheckSpec
		for _, i := range random.Perm(len(orders)) {
			spec.EscalatingRemediations = append(spec.EscalatingRemediations, escalation(orders[i]))
		}
		before := *spec.DeepCopy()
		steps := Steps(&spec)
		require.Len(t, steps, len(orders))
		for i, step := range steps {
			require.Equal(t, Step{Order: orders[i], Reference: escalation(orders[i]).RemediationTemplate, Timeout: time.Hour}, step, "P7 13.1")
		}
		require.Equal(t, before, spec, "the spec stays as it is")
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	reference := corev1.ObjectReference{APIVersion: testGroupVersion, Kind: "ATemplate", Namespace: "n", Name: "a"}
	require.Equal(t, []Step{{Reference: reference}}, Steps(&v1alpha1.NodeHealthCheckSpec{RemediationTemplate: &reference}), "1.4: a classic one has a single step")
	require.Empty(t, Steps(&v1alpha1.NodeHealthCheckSpec{}), "4.7: a stored spec without any")
}

func TestRemediationKind(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reference corev1.ObjectReference
		want      schema.GroupVersionKind
		ok        bool
	}{
		"11.1 without Template":      {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "FooTemplate"}, want: schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "Foo"}, ok: true},
		"11.1 only the end is cut":   {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "TemplateFooTemplate"}, want: schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "TemplateFoo"}, ok: true},
		"11.1 core group":            {reference: corev1.ObjectReference{APIVersion: "v1", Kind: "PodTemplate"}, want: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, ok: true},
		"6.1 without the suffix":     {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "Foo"}},
		"6.1 in another case":        {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "Footemplate"}},
		"6.1 in the middle":          {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "FooTemplates"}},
		"6.1 nothing but the suffix": {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "Template"}},
		"6.1 no kind":                {reference: corev1.ObjectReference{APIVersion: "g.io/v1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := Step{Reference: tc.reference}.RemediationKind()
			require.Equal(t, tc.ok, ok)
			if tc.ok {
				require.Equal(t, tc.want, got)
			}
		})
	}
}
