// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

var crdManifest = filepath.Join("..", "..", "manifests", "base", "crd", "nodehealthchecks.yaml")

// addedToTheAPI are the additions to the API of docs/compatibility.md: an older CRD does not
// have them.
var addedToTheAPI = map[string][]string{
	"spec": {"mode", "remediationHistoryLimit", "stormRecoveryThreshold"},
	"status": {
		"observedGeneration", "remediatingNodes", "soonUnhealthyNodes", "unhealthyNodeCount", "remediationsAllowed",
		"remediationHistory", "stormRecoveryActive", "stormRecoveryStartTime",
	},
}

// olderCRD returns the CRD of the manifests without the additions. It has another type of the list of unhealthy nodes, if one is given.
func olderCRD(t *testing.T, listType map[string]any) string {
	t.Helper()
	content, err := os.ReadFile(crdManifest)
	require.NoError(t, err)
	crd := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(content, &crd.Object))
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version := versions[0].(map[string]any)
	properties := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
	for part, fields := range addedToTheAPI {
		schema := properties[part].(map[string]any)
		for _, field := range fields {
			require.Contains(t, schema["properties"], field)
			delete(schema["properties"].(map[string]any), field)
		}
	}
	list := properties["status"].(map[string]any)["properties"].(map[string]any)["unhealthyNodes"].(map[string]any)
	maps.Copy(list, listType)
	entry := list["items"].(map[string]any)["properties"].(map[string]any)
	for _, field := range []string{"trigger", "detected", "decision"} {
		require.Contains(t, entry, field)
		delete(entry, field)
	}
	var columns []any // Those of the fields that are left.
	for _, column := range version["additionalPrinterColumns"].([]any) {
		path := column.(map[string]any)["jsonPath"].(string)
		if path != ".status.remediatingNodes" && path != ".status.unhealthyNodeCount" && path != ".spec.mode" && path != ".status.soonUnhealthyNodes" {
			columns = append(columns, column)
		}
	}
	version["additionalPrinterColumns"] = columns
	require.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	older, err := yaml.Marshal(crd.Object)
	require.NoError(t, err)
	return string(older)
}

// TestRollback: an upgrade is taken back in the middle of a remediation, and made again. With
// an older CRD the API server drops what only the newer controller writes to status. That
// controller does not write it again and again, nothing is done twice, and what was dropped is
// back with the newer CRD (spec P3, P8, 18.2).
func TestRollback(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	s := newScenario(t, c)
	newer := c.startController(t, "newer")
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.fail("a")
	cr := s.eventuallyCR("a")
	require.NotEmpty(t, s.status().RemediationHistory)
	acquired := s.nodeLease("a").Spec.AcquireTime
	tried := newEmptyScenario(t, c, t.Name()+"/dry-run", powerCycle)
	tried.createTemplate(usualTemplate())
	tried.createNHC(mode(v1alpha1.ModeDryRun))

	// The CRD is older, and the newer controller runs, as in the middle of every rollback.
	older := olderCRD(t, nil)
	s.applyCRD(older, func() bool { return s.prunes() })
	s.confirm("c", "") // Something happens, so that status is written.
	s.fail("b")
	s.eventually("a CR for b", func() bool { return s.cr("b") != nil && len(s.status().UnhealthyNodes) == 2 })
	status := s.status()
	require.Empty(t, status.RemediationHistory, "dropped")
	require.Nil(t, status.RemediatingNodes, "dropped")
	require.Equal(t, v1alpha1.PhaseRemediating, status.Phase, "18.1: what the CRD has is true")
	require.Nil(t, s.entry("a").Decision)
	s.eventuallyStatusQuiet()
	require.Empty(t, tried.get().Spec.Mode, "dropped: what was tried is enforced")
	_, err := c.Kubectl(t.Context(), "patch", "nhc", tried.name, "--type=merge", `--patch={"spec":{"pauseRequests":["rollback"]}}`)
	require.NoError(t, err)

	// The older controller finds its CRD, status without the additions, and remediations that
	// run. This version stands for it: what status does not show, it cannot know.
	newer.Stop()
	c.startController(t, "older")
	s.heal("b")
	s.eventuallyNoCR("b")
	s.eventuallyListed(map[string]int{"a": 1})
	require.Equal(t, cr.GetUID(), s.cr("a").GetUID(), "P8")
	require.Equal(t, cr.GetResourceVersion(), s.cr("a").GetResourceVersion(), "11.2")

	s.applyManifest(crdManifest)
	s.eventually("the additions are back", func() bool {
		s.setCondition("c", "Other", "True", time.Now()) // Something happens, so that status is written.
		return len(s.status().RemediationHistory) > 0
	})
	require.Equal(t, int32(1), *s.status().RemediatingNodes)
	require.Equal(t, v1alpha1.ModeEnforce, tried.get().Spec.Mode, "a write without it has been stored: the default")
	require.Equal(t, v1alpha1.PhasePaused, tried.status().Phase)
	require.Equal(t, acquired, s.nodeLease("a").Spec.AcquireTime, "14.5: it was never lost")
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(3, 3)
	s.eventuallyNoneListed()
	s.requireRequests("create", "a", 1, "P9")
	s.requireRequests("create", "b", 1, "P9")
}

// applyManifest applies a file, as an installation does.
func (s *scenario) applyManifest(path string) {
	s.t.Helper()
	_, err := s.Kubectl(s.t.Context(), "apply", "--server-side", "--force-conflicts", "-f", path)
	require.NoError(s.t, err)
}

// applyCRD applies a CRD, and waits until the API server has it.
func (s *scenario) applyCRD(crd string, has func() bool) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "crd.yaml")
	require.NoError(s.t, os.WriteFile(path, []byte(crd), 0o600))
	s.applyManifest(path)
	s.eventually("the API server has the CRD", has)
}

// prunes reports whether the API server drops the history.
func (s *scenario) prunes() bool {
	return len(s.status().RemediationHistory) == 0
}

// eventuallyStatusQuiet waits until nothing has been written to status for a while.
func (s *scenario) eventuallyStatusQuiet() {
	s.t.Helper()
	s.catchUpNodes()
	require.NotEmpty(s.t, s.statusWrites(s.begin))
	s.eventually("no more writes to status", func() bool { return len(s.statusWrites(time.Now().Add(-5*time.Second))) == 0 })
}
