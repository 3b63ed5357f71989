// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestValidation: the CRD judges each write, also of the status, and decides what is stored.
func TestValidation(t *testing.T) {
	t.Parallel()
	nhcs := v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)
	server := New()
	server.Install("admin", Resource{GroupVersionResource: nhcs, Kind: v1alpha1.Kind})
	connected, err := dynamic.NewForConfig(server.NewClient("test", nil).Config())
	require.NoError(t, err)
	client := connected.Resource(nhcs)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": v1alpha1.Kind, "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"selector": map[string]any{}, "unknown": "field", "maxUnhealthy": int64(1),
			"remediationTemplate": map[string]any{"apiVersion": "a/v1", "kind": "ATemplate", "name": "a", "namespace": "a"},
		},
	}}
	_, err = client.Create(t.Context(), object, metav1.CreateOptions{})
	require.ErrorContains(t, err, "Selector is mandatory")
	require.True(t, apierrors.IsInvalid(err), err)
	require.NoError(t, unstructured.SetNestedField(object.Object, "b", "spec", "selector", "matchLabels", "a"))
	stored, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	spec, _, _ := unstructured.NestedMap(stored.Object, "spec")
	require.NotContains(t, spec, "unknown")
	require.Len(t, spec["unhealthyConditions"], 2, "defaults")

	setStatus := func(value any, fields ...string) error {
		changed := stored.DeepCopy()
		require.NoError(t, unstructured.SetNestedField(changed.Object, value, append([]string{"status"}, fields...)...))
		_, err := client.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{})
		return err
	}
	require.True(t, apierrors.IsInvalid(setStatus("many", "observedNodes")))
	condition := map[string]any{"type": "a", "status": "True", "lastTransitionTime": "2000-01-01T00:00:00Z", "reason": "B", "message": ""}
	require.True(t, apierrors.IsInvalid(setStatus([]any{condition, condition}, "conditions")))
	require.NoError(t, setStatus(int64(1), "observedNodes"))
	stored = server.Get(nhcs, Key{Name: "a"})
	require.NoError(t, setStatus(int64(1), "unknown"))
	require.Equal(t, stored, server.Get(nhcs, Key{Name: "a"}), "an unknown field is no change")

	broken := func(object *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedMap(object.Object, nil, "spec", "selector"))
	}
	require.False(t, server.Modify("test", nhcs, Key{Name: "a"}, broken))
	require.True(t, server.ModifyUnchecked("test", nhcs, Key{Name: "a"}, broken))
	stored = server.Get(nhcs, Key{Name: "a"})
	require.NoError(t, setStatus(int64(2), "observedNodes"), "what was not valid before")
}

// TestUnconditional: an update says which version it was made from, unless the kind permits it to be silent.
func TestUnconditional(t *testing.T) {
	t.Parallel()
	for _, unconditional := range []bool{false, true} {
		nodes := corev1.SchemeGroupVersion.WithResource("nodes")
		connected, err := dynamic.NewForConfig(New(Resource{GroupVersionResource: nodes, Kind: "Node", Unconditional: unconditional}).NewClient("test", nil).Config())
		require.NoError(t, err)
		client := connected.Resource(nodes)
		node := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "a"}}}
		_, err = client.Create(t.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = client.Update(t.Context(), node, metav1.UpdateOptions{})
		require.Equal(t, !unconditional, apierrors.IsInvalid(err), err)
	}
}

// TestUpdatedValues: new values are judged, also in the status alone. Values that were invalid before are
// not.
func TestUpdatedValues(t *testing.T) {
	t.Parallel()
	schemas, err := shippedSchemas()
	require.NoError(t, err)
	known := schemas[schema.GroupKind{Group: v1alpha1.SchemeGroupVersion.Group, Kind: v1alpha1.Kind}]
	for name, tc := range map[string]struct {
		field          string
		before, after  any
		status, denied bool
	}{
		"status":                     {field: "status.observedNodes", after: int64(1), status: true},
		"status of another type":     {field: "status.observedNodes", after: "many", status: true, denied: true},
		"status that was invalid":    {field: "status.observedNodes", before: "many", after: "many", status: true},
		"spec":                       {field: "spec.maxUnhealthy", after: int64(2)},
		"spec that breaks a rule":    {field: "spec.minHealthy", after: int64(2), denied: true},
		"spec that broke a rule":     {field: "spec.minHealthy", before: int64(2), after: int64(2)},
		"status of an invalid spec":  {field: "spec.minHealthy", before: int64(2), after: int64(2), status: true},
		"spec of another type":       {field: "spec.selector", after: "all", denied: true},
		"status beside another spec": {field: "spec.selector", before: "all", after: "all", status: true, denied: true},
	} {
		old := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": v1alpha1.Kind, "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{
				"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}}, "maxUnhealthy": int64(1),
				"remediationTemplate": map[string]any{"apiVersion": "a/v1", "kind": "ATemplate", "name": "a"},
			},
		}}
		defaulting.Default(old.Object, known.structural)
		object := old.DeepCopy()
		if tc.before != nil {
			require.NoError(t, unstructured.SetNestedField(old.Object, tc.before, strings.Split(tc.field, ".")...))
		}
		require.NoError(t, unstructured.SetNestedField(object.Object, tc.after, strings.Split(tc.field, ".")...))
		answer := known.update(old, object, tc.status)
		require.Equal(t, tc.denied, len(answer.Causes) > 0, "%s: %v", name, answer.Causes)
	}
}
