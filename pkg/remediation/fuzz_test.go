// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// seeds are objects of every shape, for both fuzz targets.
var seeds = []string{
	`{}`,
	`{"metadata": 1, "spec": 2, "status": 3}`,
	`{"apiVersion": "a/b/c", "kind": 5, "metadata": {"name": ["x"], "annotations": {"a": 1}, "ownerReferences": [null, {}]}}`,
	`{"apiVersion": "example.com/v1", "kind": "R", "metadata": {"name": "n", "deletionTimestamp": "x", "annotations": {"remediation.medik8s.io/nhc-timed-out": ""}}}`,
	`{"metadata": {"ownerReferences": [{"apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck", "name": "w", "controller": "no"}]}}`,
	`{"metadata": {"creationTimestamp": 1e99, "labels": {"remediation.medik8s.io/isControlPlaneNode": null}}}`,
	`{"status": {"conditions": [null, 1, [], {"type": {}, "status": []}, {"type": "Succeeded", "status": "True"}]}}`,
	`{"status": {"conditions": {"type": "Succeeded"}}}`,
	`{"status": {"conditions": [{"type": "FencingSucceeded", "status": "True", "lastTransitionTime": {}}, {"type": "Succeeded", "status": "True", "lastTransitionTime": "x"}]}}`,
	`{"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": [{"type": "FenceAgentActionSucceeded", "status": "True", "lastTransitionTime": "2026-01-01T01:00:00+02:00"}]}}`,
	`{"status": {"conditions": [{"type": "FencingSucceeded", "status": "True", "lastTransitionTime": "0001-01-01T00:00:00Z"}]}}`,
	`{"spec": {"template": {"spec": {}}}}`,
	`{"spec": {"template": {"spec": {"a": [1, 2.5, null, true, {"b": "c"}]}}}}`,
	`{"spec": {"template": {"spec": [1]}}}`,
	`{"spec": {"template": null}}`,
	`{"spec": []}`,
}

func fuzzed(text string) *unstructured.Unstructured {
	var content map[string]any
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}

// FuzzParseCR: any object can be read as a CR (spec 11.7), and what was read can
// be used.
func FuzzParseCR(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw := fuzzed(text)
		if raw == nil {
			return
		}
		before := raw.DeepCopy()
		got := object.ParseCR(raw)
		require.Equal(t, before, raw, "reading changes nothing")
		require.True(t, got.SameAs(object.ParseCR(raw)))
		require.Equal(t, got, got.DeepCopyObject())
		at, known := got.TimedOutAt()
		require.True(t, !known || got.TimedOut(), "%s", at)
		at, known = got.FencedAt(epoch)
		require.Equal(t, got.Fenced, known)
		require.False(t, at.After(epoch), "%s", at)
		for _, owner := range got.Owners() {
			require.True(t, got.OwnedBy(ownerNamed(owner)))
		}
		for _, node := range []Node{sick(got.Node(), with(got)), sick(got.Node(), near(got)), sick(got.Node(), with(got), well), sick(got.Node(), with(got), gone)} {
			planFor(node, epoch)
		}
	})
}

// FuzzParseTemplate: any object can be read as a template, and one that is found
// valid can be rendered.
func FuzzParseTemplate(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw := fuzzed(text)
		if raw == nil {
			return
		}
		before := raw.DeepCopy()
		got := object.ParseTemplate(raw)
		require.Equal(t, before, raw, "reading changes nothing")
		require.True(t, got.SameAs(object.ParseTemplate(raw)))
		require.Equal(t, got, got.DeepCopyObject())
		step := Step{}
		if CheckTemplate([]Step{step}, step, got) == nil {
			rendered := rendered(sick("node-1"), got)
			require.Equal(t, got.Spec, rendered.Object["spec"])
		}
	})
}
