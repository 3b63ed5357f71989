// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

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
