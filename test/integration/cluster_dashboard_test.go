// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// dashboardAccount is the ServiceAccount of the dashboard, and the name of its Deployment.
const dashboardAccount = "nhc-dashboard"

// installDashboard applies the component, after others, until the end of the test.
func (c *cluster) installDashboard(t *testing.T, others ...string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, deploy.WriteKustomization(dir, deploy.Namespace, append(others, "dashboard")...))
	_, err := c.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "-k", dir) // As deploy.InstallOverlay does.
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := c.Kubectl(context.WithoutCancel(t.Context()), "delete", "--ignore-not-found", "-f", filepath.Join("..", "..", "manifests", "components", "dashboard", "networkpolicy.yaml"),
			"-f", filepath.Join("..", "..", "manifests", "components", "dashboard", "deployment.yaml"), "-f", filepath.Join("..", "..", "manifests", "components", "dashboard", "rbac.yaml"))
		require.NoError(t, err)
	})
}

// TestDashboardPermissions asks the API server, as the ServiceAccount of the dashboard, what it may do:
// read what the pages show, check tokens, and nothing else.
func TestDashboardPermissions(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.installDashboard(t)
	config, err := c.ServiceAccountConfig(t.Context(), deploy.Namespace, dashboardAccount)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	everywhere := []string{
		"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io",
		// As every user may.
		"create selfsubjectaccessreviews.authorization.k8s.io", "create selfsubjectreviews.authentication.k8s.io", "create selfsubjectrulesreviews.authorization.k8s.io",
	}
	everywhere = append(everywhere, "list leases.coordination.k8s.io nhc-controller", "watch leases.coordination.k8s.io nhc-controller") // Of the leader.
	everywhere = append(everywhere, c.grantedToServiceAccounts(t)...)
	for _, verb := range []string{"get", "list", "watch"} {
		for _, resource := range []string{"nodes", "nodehealthchecks.remediation.medik8s.io", "nodehealthchecks/status.remediation.medik8s.io", "remediationbudgets.nhc-controller.io", "remediationbudgets/status.nhc-controller.io"} {
			everywhere = append(everywhere, verb+" "+resource)
		}
	}
	for namespace, more := range map[string][]string{
		metav1.NamespaceDefault: {"list events"}, nodeLeaseNamespace: {"get leases.coordination.k8s.io"}, deploy.Namespace: nil, metav1.NamespaceSystem: nil, "kube-node-lease": nil,
	} {
		patience.Eventually(t, "the permissions in "+namespace, func() bool {
			return rulesOf(t, client, namespace).HasAll(slices.Concat(everywhere, more)...)
		})
		require.ElementsMatch(t, slices.Concat(everywhere, more), rulesOf(t, client, namespace).UnsortedList(), "in namespace %s", namespace)
	}
	_, err = client.CoreV1().Secrets(deploy.Namespace).List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "forbidden")
}

// testDashboardPod: the pod of the dashboard is admitted where the level restricted is enforced and where
// a platform chooses the user, and has what that does not ask for.
func testDashboardPod(t *testing.T, c *cluster) {
	c.installDashboard(t, "openshift")
	var pod corev1.Pod
	patience.Eventually(t, "the pod of the dashboard", func() bool {
		list, err := c.kube.CoreV1().Pods(deploy.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + dashboardAccount})
		require.NoError(t, err)
		if len(list.Items) == 0 {
			return false
		}
		pod = list.Items[0]
		return true
	})
	require.Equal(t, int64(firstUID), *pod.Spec.SecurityContext.RunAsUser, "that of the namespace's range")
	require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.Spec.SecurityContext.SeccompProfile.Type)
	container := pod.Spec.Containers[0]
	require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop)
	require.False(t, container.Resources.Limits.Memory().IsZero())
	require.False(t, container.Resources.Requests.Cpu().IsZero())
	require.NotNil(t, container.LivenessProbe)
	require.NotNil(t, container.ReadinessProbe)
	require.Len(t, pod.Spec.Volumes, 1, "the token, and nothing else")
	namespace, err := c.kube.CoreV1().Namespaces().Get(t.Context(), deploy.Namespace, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "restricted", namespace.Labels["pod-security.kubernetes.io/enforce"])
}
