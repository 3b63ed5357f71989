// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

const (
	// namespace is that of the release, another one than that of the manifests.
	namespace = "node-health"
	// previousVersion is that of the chart that is upgraded.
	previousVersion = "0.0.1"

	aggregatedRole = "nhc-controller-aggregation"
	crdName        = "nodehealthchecks.remediation.medik8s.io"
	budgetCRDName  = "remediationbudgets.nhc-controller.io"
)

// cluster is a control plane, and clients of an admin.
type cluster struct{ *deploy.Cluster }

// TestChartInCluster installs the chart in a real control plane. Each part needs what
// the one before leaves.
func TestChartInCluster(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	controlPlane, err := localkube.Start(ctx, localkube.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, controlPlane.Stop()) })
	connected, err := deploy.Connect(controlPlane)
	require.NoError(t, err)
	c := &cluster{connected}
	c.apply(t, deploy.PlatformKinds)

	t.Run("lifecycle", func(t *testing.T) { testLifecycle(t, c) })
	t.Run("combinations", func(t *testing.T) { testCombinations(t, c) })
	t.Run("ownership", func(t *testing.T) { testOwnership(t, c) })
}

// testLifecycle: the chart is installed, upgraded from an earlier version while the
// controller leads, rolled back, uninstalled, and installed again.
func testLifecycle(t *testing.T, c *cluster) {
	previous := chartOfVersion(t, previousVersion)
	c.helm(t, "install", release, previous, "--create-namespace")
	_, err := c.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd/"+crdName, "crd/"+budgetCRDName)
	require.NoError(t, err)
	require.NoError(t, deploy.InstallKinds(t.Context(), c.ControlPlane, deploy.Kinds{Manifest: remediator.Manifest, Group: remediator.Resource.Group}))
	controller, err := deploy.Start(t.Context(), c.ControlPlane, deploy.Controller{Name: "replica", Namespace: namespace})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(controller.LogTail())
		}
	})
	lease, err := c.AwaitLeader(t.Context(), namespace, "replica")
	require.NoError(t, err)
	_, err = c.Kubectl(t.Context(), "apply", "-f", filepath.Join(root, "manifests", "samples", "classic.yaml"))
	require.NoError(t, err)
	uid := c.eventuallyJudged(t, "workers")

	aggregated := c.permissions(t)
	require.NotEmpty(t, aggregated)
	c.requirePermissionsDuring(t, aggregated, func() {
		c.helm(t, "upgrade", release, chartDir, "--set", "monitoring.enabled=true,openshift.enabled=true,networkPolicy.enabled=false,extraLabels.team=nodes")
	})
	for _, crd := range []string{crdName, budgetCRDName} {
		require.Equal(t, currentVersion(t), c.versionOf(t, "crd", crd), "the CRDs are upgraded, too")
	}
	require.Empty(t, c.names(t, "networkpolicy"))
	require.Equal(t, "prometheusrule.monitoring.coreos.com/nhc-controller", c.names(t, "prometheusrule"))
	require.Equal(t, "nodes", c.deployment(t).Labels["team"])
	again, err := c.Kube.CoordinationV1().Leases(namespace).Get(t.Context(), deploy.LeaderLease, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, lease.Spec.LeaseTransitions, again.Spec.LeaseTransitions, "the leader leads on")

	generation := c.deployment(t).Generation
	c.helm(t, "upgrade", release, chartDir, "--reuse-values")
	require.Equal(t, generation, c.deployment(t).Generation, "nothing has changed, so nothing is rolled out")
	c.helm(t, "rollback", release, "1")
	require.Equal(t, previousVersion, c.versionOf(t, "deployment", "nhc-controller"))
	require.Equal(t, "networkpolicy.networking.k8s.io/nhc-controller", c.names(t, "networkpolicy"))
	require.Empty(t, c.names(t, "prometheusrule"))
	require.Equal(t, aggregated, c.permissions(t))

	require.Empty(t, deploy.LogFaults(controller))
	controller.Stop()
	manifest := c.helm(t, "get", "manifest", release)
	c.helm(t, "uninstall", release)
	left, err := c.KubectlInput(t.Context(), strings.NewReader(manifest), "get", "--ignore-not-found", "--output=name", "-f", "-")
	require.NoError(t, err)
	const crdPrefix = "customresourcedefinition.apiextensions.k8s.io/"
	require.ElementsMatch(t, []string{crdPrefix + crdName, crdPrefix + budgetCRDName, "namespace/medik8s-leases"}, strings.Fields(left))
	require.Equal(t, uid, c.eventuallyJudged(t, "workers"), "it stays as it is")

	c.helm(t, "install", release, chartDir)
	require.Equal(t, uid, c.eventuallyJudged(t, "workers"))
	require.NoError(t, deploy.AwaitRBAC(t.Context(), c.ControlPlane, remediator.Resource.Group))
	_, err = deploy.Start(t.Context(), c.ControlPlane, deploy.Controller{Name: "second", Namespace: namespace})
	require.NoError(t, err)
	_, err = c.AwaitLeader(t.Context(), namespace, "second")
	require.NoError(t, err)
}

// testCombinations: the API server accepts the chart with all values, without a warning, in
// a namespace that enforces the Pod Security level restricted.
func testCombinations(t *testing.T, c *cluster) {
	c.apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: nhc-system, labels: {
pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}}}`)
	for _, values := range combinations {
		manifest, err := helm(t, append([]string{"template", release, chartDir, "--namespace", "nhc-system"}, set(values)...)...)
		require.NoError(t, err)
		c.apply(t, manifest)
	}
}

// testOwnership: what belongs to somebody else is taken over only if Helm is told so.
func testOwnership(t *testing.T, c *cluster) {
	args := []string{"install", "another", chartDir, "--kubeconfig", c.AdminKubeconfig(), "--namespace", "nhc-system"}
	_, err := helm(t, args...)
	require.ErrorContains(t, err, "cannot be imported into the current release")
	_, err = helm(t, append(args, "--take-ownership")...)
	require.ErrorContains(t, err, "conflict", "kubectl has applied the objects")
	_, err = helm(t, append(args, "--take-ownership", "--force-conflicts", "--replace")...)
	require.NoError(t, err)
	role, err := c.Kube.RbacV1().ClusterRoles().Get(t.Context(), aggregatedRole, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "another", role.Annotations["meta.helm.sh/release-name"])
	require.NotEmpty(t, role.Rules, "P10: the remediators gave them")
}

// apply applies a manifest as its only owner. A warning is an error.
func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	_, err := c.KubectlInput(t.Context(), strings.NewReader(manifest), "apply", "--server-side", "--force-conflicts", "--warnings-as-errors", "-f", "-")
	require.NoError(t, err)
}

// helm runs Helm in the cluster and returns its output.
func (c *cluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	output, err := helm(t, append(args, "--kubeconfig", c.AdminKubeconfig(), "--namespace", namespace)...)
	require.NoError(t, err)
	return output
}

// chartOfVersion returns a copy of the chart that is another version of it.
func chartOfVersion(t *testing.T, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "nhc-controller")
	require.NoError(t, os.CopyFS(dir, os.DirFS(chartDir)))
	path := filepath.Join(dir, "Chart.yaml")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := strings.Replace(string(content), "\nversion: "+currentVersion(t)+"\n", "\nversion: "+version+"\n", 1)
	require.NotEqual(t, string(content), changed)
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
	return dir
}

// currentVersion returns the version of the chart.
func currentVersion(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(chartDir, "Chart.yaml"))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^version: (\S+)$`).FindSubmatch(content)
	require.NotNil(t, version)
	return string(version[1])
}

// versionOf returns the version of the chart that an object comes from.
func (c *cluster) versionOf(t *testing.T, kind, name string) string {
	t.Helper()
	label, err := c.Kubectl(t.Context(), "get", "--namespace", namespace, kind, name, `--output=jsonpath={.metadata.labels.helm\.sh/chart}`)
	require.NoError(t, err)
	return strings.TrimPrefix(label, "nhc-controller-")
}

// names returns the objects of a kind in the namespace of the release.
func (c *cluster) names(t *testing.T, kind string) string {
	t.Helper()
	names, err := c.Kubectl(t.Context(), "get", "--namespace", namespace, kind, "--output=name")
	require.NoError(t, err)
	return strings.TrimSpace(names)
}

func (c *cluster) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d, err := c.Kube.AppsV1().Deployments(namespace).Get(t.Context(), "nhc-controller", metav1.GetOptions{})
	require.NoError(t, err)
	return d
}

// permissions returns those that the remediators have given to the controller.
func (c *cluster) permissions(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	role, err := c.Kube.RbacV1().ClusterRoles().Get(t.Context(), aggregatedRole, metav1.GetOptions{})
	require.NoError(t, err)
	return role.Rules
}

// requirePermissionsDuring does something, during which these permissions may not go away,
// not even for a moment (spec P10).
func (c *cluster) requirePermissionsDuring(t *testing.T, want []rbacv1.PolicyRule, do func()) {
	t.Helper()
	roles := c.Kube.RbacV1().ClusterRoles()
	list, err := roles.List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	changes, err := roles.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + aggregatedRole, ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	defer changes.Stop()
	do()
	// The watch has seen everything when it sees this.
	_, err = c.Kubectl(t.Context(), "annotate", "clusterrole", aggregatedRole, "test.nhc-controller.io/last=yes")
	require.NoError(t, err)
	seen := 0
	for event := range changes.ResultChan() {
		role, _ := event.Object.(*rbacv1.ClusterRole)
		require.NotNil(t, role, "%v", event)
		require.Equal(t, want, role.Rules)
		if seen++; role.Annotations["test.nhc-controller.io/last"] != "" {
			require.Greater(t, seen, 1, "the upgrade has changed the labels")
			return
		}
	}
	require.Fail(t, "the watch has ended")
}

// eventuallyJudged waits until the controller has written the status of a NodeHealthCheck,
// and returns its UID.
func (c *cluster) eventuallyJudged(t *testing.T, name string) string {
	t.Helper()
	var nhc *v1alpha1.NodeHealthCheck
	patience.Eventually(t, name+" has a status", func() bool {
		var err error
		nhc, err = c.NHC.RemediationV1alpha1().NodeHealthChecks().Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		return len(nhc.Status.Conditions) > 0
	})
	return string(nhc.UID)
}
