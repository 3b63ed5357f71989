// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// movedNamespace is the namespace in the example of docs/installation.md.
const movedNamespace = "node-health"

// testAnotherNamespace applies the example of docs/installation.md: all components, in
// another namespace. The controller works there, and what limits it does as well.
func testAnotherNamespace(t *testing.T, c *cluster) {
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		c.installOptional(t, untypedKind("monitoring.coreos.com", "v1", kind, false))
	}
	_, err := c.Kubectl(t.Context(), "apply", "-k", filepath.Join("..", "..", "manifests", "monitoring"))
	require.NoError(t, err)
	example, repository := exampleInstallation(t)
	_, err = c.Kubectl(t.Context(), "kustomize", repository("manifests/overlays/openshift"))
	require.NoError(t, err)
	rendered, err := c.Kubectl(t.Context(), "kustomize", example)
	require.NoError(t, err)
	require.NotContains(t, rendered, deploy.Namespace)
	require.NotContains(t, rendered, "nhc-controller-namespace", "a parameter, no object")
	apply := func() {
		_, err = c.Kubectl(t.Context(), "apply", "-k", example)
		require.NoError(t, err)
	}
	apply()
	for _, pod := range c.eventuallyPods(t, movedNamespace) {
		require.Nil(t, pod.Spec.SecurityContext.RunAsUser, "OpenShift chooses it")
	}

	c.startDeployed(t, deploy.Controller{Name: "moved", Namespace: movedNamespace, Args: []string{"-v=5"}})
	patience.Eventually(t, "it leads", func() bool {
		lease, err := c.kube.CoordinationV1().Leases(movedNamespace).Get(t.Context(), deploy.LeaderLease, metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, "moved_")
	})
	s := newScenario(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	s.fail("a")
	s.eventuallyCR("a")
	s.eventuallyEvent("RemediationCreated", "Created remediation object for node "+s.node("a"))
	require.NotNil(t, s.nodeLease("a"), "in the namespace that operators share")
	s.heal("a")
	s.eventuallyNoCR("a")
	s.testMovedLimits()
}

// testMovedLimits: the policy for Nodes and the flow schemas are about the user in the other
// namespace.
func (s *scenario) testMovedLimits() {
	config, err := s.ServiceAccountConfig(s.t.Context(), movedNamespace, deploy.ServiceAccount)
	require.NoError(s.t, err)
	user, err := kubernetes.NewForConfig(config)
	require.NoError(s.t, err)
	s.eventually("the policy is in force", func() bool {
		_, err := user.CoreV1().Nodes().Patch(s.t.Context(), s.node("b"), types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{DryRun: dryRun})
		return err != nil && strings.Contains(err.Error(), "nhc-controller may not change the spec of a node")
	})

	client, err := rest.HTTPClientFor(config)
	require.NoError(s.t, err)
	for path, name := range map[string]string{
		"/api/v1/nodes": "nhc-controller",
		"/apis/coordination.k8s.io/v1/namespaces/" + movedNamespace + "/leases/nhc-controller": "nhc-controller-leader",
	} {
		schema, err := s.kube.FlowcontrolV1().FlowSchemas().Get(s.t.Context(), name, metav1.GetOptions{})
		require.NoError(s.t, err)
		s.eventually("flow schema "+name, func() bool {
			header := answer(s.t, client, http.MethodGet, config.Host+path, "")
			return header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(schema.UID)
		})
	}
}

var (
	exampleFile     = regexp.MustCompile("(?ms)^```yaml\n# ([a-z]+\\.yaml)\n(.*?)^```$")
	remoteReference = regexp.MustCompile(`https://github\.com/nhc-controller/nhc-controller//([a-z/-]+)\?ref=(v[0-9.]+)`)
)

// exampleInstallation writes the files of docs/installation.md to a directory. A git
// repository with the manifests takes the place of GitHub: remote refers to a directory in it.
func exampleInstallation(t *testing.T) (dir string, remote func(path string) string) {
	t.Helper()
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "installation.md"))
	require.NoError(t, err)
	versions := map[string]bool{}
	for _, reference := range remoteReference.FindAllSubmatch(docs, -1) {
		versions[string(reference[2])] = true
	}
	require.Len(t, versions, 1, "the references are to one release")
	repository, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(repository, "manifests"), os.DirFS(filepath.Join("..", "..", "manifests"))))
	git(t, repository, "init", "--quiet")
	git(t, repository, "add", "manifests")
	git(t, repository, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=Release")
	for version := range versions {
		git(t, repository, "tag", version)
		remote = func(path string) string { return "file://" + repository + "//" + path + "?ref=" + version }
	}
	files := exampleFile.FindAllSubmatch(docs, -1)
	require.Len(t, files, 2)
	for _, file := range files {
		content := remoteReference.ReplaceAllFunc(file[2], func(reference []byte) []byte {
			return []byte(remote(string(remoteReference.FindSubmatch(reference)[1])))
		})
		require.NoError(t, os.WriteFile(filepath.Join(dir, string(file[1])), content, 0o600))
	}
	return dir, remote
}

// git runs git without the configuration of the user who runs the test.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "git", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
}
