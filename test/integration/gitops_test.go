// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The field managers that Argo CD and Flux use.
const (
	argo = "argocd-controller"
	flux = "kustomize-controller"
)

// sync applies a file as a tool for GitOps does.
func (s *scenario) sync(manager, path string, flags ...string) error {
	s.t.Helper()
	_, err := s.Kubectl(s.t.Context(), append([]string{"apply", "--server-side", "--field-manager=" + manager, "-f", path}, flags...)...)
	return err
}

// TestGitOps is about what docs/gitops.md says. kubectl plays Argo CD and Flux.
func TestGitOps(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startController(t, "synced")
	t.Run("no drift", func(t *testing.T) { testNoDrift(t, c) })
	t.Run("pause", func(t *testing.T) { testSyncKeepsPause(t, c) })
	t.Run("18.7 health", func(t *testing.T) { testHealthScript(t, c) })
	t.Run("prune", func(t *testing.T) { testNotPruned(t) })
}

// testNoDrift: neither the controllers of Kubernetes nor this one change what the manifests say.
// What is applied again stays in sync.
func testNoDrift(t *testing.T, c *cluster) {
	s := newScenario(t, c)
	nhc := s.manifest()
	require.NoError(t, s.sync(argo, nhc))
	require.NoError(t, s.sync(argo, installManifest, "--force-conflicts"))
	s.createNodes("a")
	s.fail("a")
	s.eventuallyCR("a")
	for _, path := range []string{installManifest, nhc} {
		for _, flags := range [][]string{{"--server-side", "--force-conflicts", "--field-manager=" + argo}, {"--server-side", "--force-conflicts", "--field-manager=" + flux}} {
			drift, err := c.Kubectl(t.Context(), append([]string{"diff", "-f", path}, flags...)...)
			require.NoError(t, err, "%s", drift)
		}
	}
	// Another manager may set the same value. Only another value needs force.
	require.NoError(t, s.sync(flux, nhc))
	require.ErrorContains(t, s.sync(flux, s.manifest(minHealthy(intstr.FromString("90%")))), `conflict with "`+argo+`": .spec.minHealthy`)
	require.Equal(t, int32(0), s.get().Spec.MinHealthy.IntVal)
}

// testSyncKeepsPause: what a person on call does to a NodeHealthCheck that comes from Git.
func testSyncKeepsPause(t *testing.T, c *cluster) {
	freeze := `--patch={"spec":{"pauseRequests":["freeze 4711"]}}`
	t.Run("a field that Git does not have stays", func(t *testing.T) {
		s := newScenario(t, c)
		path := s.manifest()
		require.NoError(t, s.sync(argo, path))
		_, err := c.Kubectl(t.Context(), "patch", "nhc", s.name, "--type=merge", freeze)
		require.NoError(t, err)
		require.NoError(t, s.sync(argo, path, "--force-conflicts"))
		require.Equal(t, []string{"freeze 4711"}, s.get().Spec.PauseRequests)
	})
	t.Run("a field that Git has is a conflict", func(t *testing.T) {
		s := newScenario(t, c)
		path := s.manifest(pause("from git"))
		require.NoError(t, s.sync(argo, path))
		_, err := c.Kubectl(t.Context(), "patch", "nhc", s.name, "--type=merge", freeze)
		require.NoError(t, err)
		require.ErrorContains(t, s.sync(argo, path), `conflict with "kubectl-patch" using remediation.medik8s.io/v1alpha1: .spec.pauseRequests`)
		require.NoError(t, s.sync(argo, path, "--force-conflicts"))
		require.Equal(t, []string{"from git"}, s.get().Spec.PauseRequests, "the freeze is over")
	})
}

// testNotPruned: Argo CD and Flux are told to keep the CRDs and the namespace of the leases, and
// nothing else.
func testNotPruned(t *testing.T) {
	kept := map[string]bool{}
	for _, object := range readManifests(t, installManifest) {
		annotations := object.GetAnnotations()
		argoKeeps := annotations["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"
		require.Equal(t, argoKeeps, annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled", object.GetName())
		if argoKeeps {
			kept[object.GetKind()+"/"+object.GetName()] = true
		}
	}
	require.Equal(t, map[string]bool{
		"CustomResourceDefinition/nodehealthchecks.remediation.medik8s.io": true, "CustomResourceDefinition/remediationbudgets.nhc-controller.io": true, "Namespace/medik8s-leases": true,
	}, kept)
}
