// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// create answers what becomes of an object in YAML.
func create(t *testing.T, rules *Rules, text string) *Answer {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(content, &object.Object))
	answer, err := rules.Create(t.Context(), object)
	require.NoError(t, err)
	return answer
}

const (
	nodeHealthCheck = `{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: a},
		spec: {selector: {matchLabels: {a: b}}, maxUnhealthy: 1, remediationTemplate: {apiVersion: a/v1, kind: ATemplate, name: a}}}`
	machineHealthCheck = `{apiVersion: machine.openshift.io/v1beta1, kind: MachineHealthCheck, metadata: {name: a}}`
)

// TestCreate: what is read, and which rules are asked. That the answers are those of the API server is
// tested with one: see TestAdmission in test/integration.
func TestCreate(t *testing.T) {
	t.Parallel()
	rules, err := Shipped()
	require.NoError(t, err)
	change := func(base string, replacements ...string) string {
		return strings.NewReplacer(replacements...).Replace(base)
	}
	for name, tc := range map[string]struct {
		object  string
		unknown []string
		causes  []Cause
	}{
		"accepted":              {object: nodeHealthCheck},
		"status is left out":    {object: change(nodeHealthCheck, "spec:", "status: {observedNodes: many}, spec:")},
		"unknown field":         {object: change(nodeHealthCheck, "maxUnhealthy: 1,", "maxUnhealthy: 1, minHealth: 2,"), unknown: []string{"spec.minHealth"}},
		"unknown metadata":      {object: change(nodeHealthCheck, "metadata: {name: a}", "metadata: {name: a, label: {}}"), unknown: []string{"metadata.label"}},
		"null":                  {object: change(nodeHealthCheck, "maxUnhealthy: 1,", "maxUnhealthy: 1, minHealthy: null,")},
		"generated name":        {object: change(nodeHealthCheck, "{name: a}", "{generateName: a-}")},
		"no name":               {object: change(nodeHealthCheck, "{name: a}", "{}"), causes: []Cause{{"metadata.name", "Required value: name or generateName is required"}}},
		"no metadata":           {object: change(nodeHealthCheck, "metadata: {name: a},", ""), causes: []Cause{{"metadata.name", "Required value: name or generateName is required"}}},
		"metadata is no object": {object: change(nodeHealthCheck, "{name: a}", "a"), causes: []Cause{{"metadata", "Invalid value: null: json: cannot unmarshal string into Go value of type v1.ObjectMeta"}}},
		"another version":       {object: change(nodeHealthCheck, "v1alpha1", "v1"), causes: []Cause{{"apiVersion", `Invalid value: "remediation.medik8s.io/v1": must be remediation.medik8s.io/v1alpha1`}}},
		"schema and rules": {
			object: change(nodeHealthCheck, "maxUnhealthy: 1", "maxUnhealthy: half, minHealthy: 1"),
			causes: []Cause{
				{"spec.maxUnhealthy", `Invalid value: "half": spec.maxUnhealthy in body should match '^((100|[0-9]{1,2})%|[0-9]+)$'`},
				{"spec", "Invalid value: minHealthy and maxUnhealthy cannot be specified at the same time"},
			},
		},
		"a type that no rule is asked about": {
			object: change(nodeHealthCheck, "selector: {matchLabels: {a: b}}", "selector: none"),
			causes: []Cause{
				{"spec.selector", `Invalid value: "string": spec.selector in body must be of type object: "string"`},
				{"", "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
			},
		},
	} {
		answer := create(t, rules, tc.object)
		require.Equal(t, tc.causes, answer.Causes, name)
		require.Equal(t, tc.unknown, answer.Unknown, name)
	}
	stored := create(t, rules, nodeHealthCheck).Object
	conditions, _, _ := unstructured.NestedSlice(stored.Object, "spec", "unhealthyConditions")
	require.Len(t, conditions, 2, "defaults")
}

func TestCreateOfUnknownKind(t *testing.T) {
	t.Parallel()
	rules, err := Shipped()
	require.NoError(t, err)
	_, err = rules.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"kind": "Pod"}})
	require.ErrorContains(t, err, "no rules about Pod")
}

// TestSamples: admission accepts all of our samples. One sample does not replace another.
func TestSamples(t *testing.T) {
	t.Parallel()
	rules, err := Shipped()
	require.NoError(t, err)
	names := map[string]string{}
	samples := filepath.Join("..", "..", "..", "manifests", "samples")
	require.NoError(t, filepath.WalkDir(samples, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "tenant-policy.yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		answer := create(t, rules, string(content))
		require.Empty(t, answer.Causes, path)
		require.Empty(t, answer.Unknown, path)
		name := answer.Object.GetKind() + " " + answer.Object.GetName()
		require.Empty(t, names[name], "%s, too, is %s", path, name)
		names[name] = path
		return nil
	}))
	require.Greater(t, len(names), 8)
}

// TestMemory: the rules of all kinds fit into what the plugin may use, less than 60 MB in all.
func TestMemory(t *testing.T) {
	before := allocated()
	rules, err := newRules()
	require.NoError(t, err)
	create(t, rules, nodeHealthCheck)
	create(t, rules, machineHealthCheck)
	create(t, rules, `{apiVersion: nhc-controller.io/v1alpha1, kind: RemediationBudget, metadata: {name: a}, spec: {nodeSelector: {}, maxConcurrent: 1}}`)
	used := allocated() - before
	runtime.KeepAlive(rules)
	t.Logf("%d kB", used>>10)
	require.Less(t, used, int64(20<<20))
}

func allocated() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
