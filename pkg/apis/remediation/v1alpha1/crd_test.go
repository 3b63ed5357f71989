// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// readCRD returns the generated CRD.
func readCRD(t *testing.T, plural string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "manifests", "base", "crd", plural+".yaml"))
	require.NoError(t, err)
	return content
}

// schemaOfCRD returns the schema of the generated CRD.
func schemaOfCRD(t *testing.T, plural string) map[string]any {
	t.Helper()
	var crd map[string]any
	require.NoError(t, yaml.Unmarshal(readCRD(t, plural), &crd))
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	require.NoError(t, err)
	require.Len(t, versions, 1)
	version, _ := versions[0].(map[string]any)
	schema, found, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	require.NoError(t, err)
	require.True(t, found)
	return schema
}

// TestRulesCompareTheSpecFirst: CEL evaluates from left to right. A write of the status
// leaves the spec as it is, so a rule that compares the spec first never reads through
// the thousands of entries of a status (spec 4.4).
func TestRulesCompareTheSpecFirst(t *testing.T) {
	t.Parallel()
	rules, _, err := unstructured.NestedSlice(schemaOfCRD(t, Plural), "x-kubernetes-validations")
	require.NoError(t, err)
	about := 0
	for _, item := range rules {
		rule, _ := item.(map[string]any)
		text, _ := rule["rule"].(string)
		if !strings.Contains(text, "oldSelf.status") {
			continue
		}
		about++
		field, _ := rule["fieldPath"].(string)
		before, after, _ := strings.Cut(text, "oldSelf.status")
		require.Contains(t, before, "self"+field, "%s is compared before the status is read", field)
		require.Contains(t, before, "oldSelf"+field)
		require.NotContains(t, after, "spec", "%s is not compared afterwards", field)
	}
	require.Equal(t, 3, about)
}

// TestOwnValuesInStatusAreOpen: a later version has values that this one does not know,
// and must be able to write them through the CRD of this one (spec 23).
func TestOwnValuesInStatusAreOpen(t *testing.T) {
	t.Parallel()
	for _, plural := range []string{Plural, nhcv1alpha1.BudgetPlural} {
		status, found, err := unstructured.NestedMap(schemaOfCRD(t, plural), "properties", "status")
		require.NoError(t, err)
		require.True(t, found)
		unstructured.RemoveNestedField(status, "properties", "conditions") // Those of Kubernetes are closed.
		requireOpen(t, plural+".status", status)
	}
}

func requireOpen(t *testing.T, path string, schema any) {
	t.Helper()
	switch schema := schema.(type) {
	case map[string]any:
		require.NotContains(t, schema, "enum", path)
		for key, value := range schema {
			requireOpen(t, path+"."+key, value)
		}
	case []any:
		for _, value := range schema {
			requireOpen(t, path, value)
		}
	}
}
