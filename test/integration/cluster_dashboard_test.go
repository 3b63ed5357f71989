// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
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

// startDashboard runs the dashboard as its ServiceAccount, with the arguments of its Deployment.
func (c *cluster) startDashboard(t *testing.T) *localkube.Process {
	t.Helper()
	config, err := c.ServiceAccountConfig(t.Context(), deploy.Namespace, dashboardAccount)
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, localkube.WriteKubeconfig(kubeconfig, config))
	deployment, err := c.kube.AppsV1().Deployments(deploy.Namespace).Get(t.Context(), dashboardAccount, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, deployment.Spec.Template.Spec.Containers, 1)
	container := &deployment.Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{"/nhc-dashboard"}, container.Command, "where TestImage finds it")
	var env []string
	for _, variable := range container.Env {
		env = append(env, variable.Name+"="+variable.Value)
	}
	executable, err := deploy.DashboardExecutable()
	require.NoError(t, err)
	process, err := c.StartProcess(localkube.Command{
		Name: "dashboard", Path: executable, Env: env,
		Args: slices.Concat(container.Args, []string{
			"--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", "--cluster-name=a cluster",
		}),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		process.Stop()
		require.Empty(t, deploy.LogFaults(process))
	})
	return process
}

// viewer is a client of the dashboard.
type viewer struct {
	t              *testing.T
	address, token string
}

// open sends a request to the dashboard. The certificate was made at its start.
func (v *viewer) open(method, path string) *http.Response {
	v.t.Helper()
	request, err := http.NewRequestWithContext(v.t.Context(), method, "https://"+v.address+path, http.NoBody)
	require.NoError(v.t, err)
	if v.token != "" {
		request.Header.Set("Authorization", "Bearer "+v.token)
	}
	transport := &http.Transport{TLSClientConfig: insecure()}
	answer, err := transport.RoundTrip(request)
	require.NoError(v.t, err)
	v.t.Cleanup(transport.CloseIdleConnections)
	return answer
}

// get returns the status and the text of a page.
func (v *viewer) get(path string) (int, string) {
	v.t.Helper()
	answer := v.open(http.MethodGet, path)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(v.t, err)
	return answer.StatusCode, string(body)
}

// newViewer returns one with ClusterRoles.
func (c *cluster) newViewer(t *testing.T, address, name string, roles ...string) *viewer {
	t.Helper()
	token := c.createToken(t, name, false)
	for _, role := range roles {
		_, err := c.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	return &viewer{t: t, address: address, token: token}
}

// TestClusterDashboard: the dashboard as the manifests install it, with its permissions, shows what it
// knows only to users who may list it.
func TestClusterDashboard(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.installDashboard(t)
	controller := c.startController(t, "beside-dashboard")
	s := newScenario(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.fail("a")
	s.eventuallyCR("a")
	dashboard := c.startDashboard(t)
	eventuallyReady(t, dashboard)
	address := address(t, dashboard, "dashboard")

	paths := []string{"/", "/nodes", "/check?name=" + s.name, "/node?name=" + s.node("a"), "/history", "/events", "/assets/script.js", "/metrics"}
	c.newRole(t, "only-checks", []string{v1alpha1.GroupName, nhcv1alpha1.GroupName}, v1alpha1.Plural, nhcv1alpha1.BudgetPlural)
	c.newRole(t, "only-nodes", []string{""}, "nodes")
	for want, refused := range map[int][]*viewer{
		http.StatusUnauthorized: {{t: t, address: address}, {t: t, address: address, token: "guess"}},
		http.StatusForbidden: {
			c.newViewer(t, address, "without-role"), c.newViewer(t, address, "checks", "only-checks", "view"), c.newViewer(t, address, "nodes", "only-nodes"),
			c.newViewer(t, address, "scraper", "nhc-metrics-reader"),
		},
	} {
		for _, v := range refused {
			for _, path := range paths {
				status, text := v.get(path)
				require.Equal(t, want, status, path)
				require.NotContains(t, text, s.name)
			}
		}
	}

	v := c.newViewer(t, address, "on-call", "nhc-view")
	testDashboardPages(v, s)
	testDashboardStream(v, s)
	testDashboardRemediator(v, s)
	requireRunning(t, controller)
	require.Empty(t, deploy.LogFaults(controller))
	require.NotContains(t, dashboard.LogTail(), v.token)
}

// newRole creates a ClusterRole that permits to read resources.
func (c *cluster) newRole(t *testing.T, name string, groups []string, resources ...string) {
	t.Helper()
	_, err := c.kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: groups, Resources: resources, Verbs: []string{"get", "list", "watch"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// testDashboardPages: everything is there, and nothing can be changed.
func testDashboardPages(v *viewer, s *scenario) {
	for path, want := range map[string]string{
		"/": `<a href="check?name=` + s.name + `">`, "/nodes": "Unhealthy nodes", "/check?name=" + s.name: "History of " + s.name,
		"/node?name=" + s.node("b"): "Node " + s.node("b"), "/history": "Episodes", "/assets/script.js": "EventSource",
	} {
		status, text := v.get(path)
		require.Equal(v.t, http.StatusOK, status, path)
		require.Contains(v.t, text, want, path)
		require.NotContains(v.t, text, "This page is partial.", path)
	}
	_, text := v.get("/")
	require.Contains(v.t, text, "a cluster")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		answer := v.open(method, "/check?name="+s.name)
		require.NoError(v.t, answer.Body.Close())
		require.Equal(v.t, http.StatusMethodNotAllowed, answer.StatusCode)
	}
}

// testDashboardStream: a stream lasts longer than other requests may, and tells of changes.
func testDashboardStream(v *viewer, s *scenario) {
	answer := v.open(http.MethodGet, "/events")
	defer answer.Body.Close()
	require.Equal(v.t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		for lines.Scan() {
			if version, found := strings.CutPrefix(lines.Text(), "data: "); found {
				return version
			}
		}
		require.Fail(v.t, "the stream has ended", "%v", lines.Err())
		return ""
	}
	first := next()
	time.Sleep(3 * time.Second) // A request has to be complete after two.
	s.createNodes("late")
	for next() == first { // Versions only grow.
	}
	s.eventually("the new node", func() bool { status, _ := v.get("/node?name=" + s.node("late")); return status == http.StatusOK })
}

// testDashboardRemediator: without a permission for a kind of remediations the page says so. With the role
// of docs/dashboard-in-cluster.md it is complete.
func testDashboardRemediator(v *viewer, s *scenario) {
	path := "/node?name=" + s.node("a")
	status, text := v.get(path)
	require.Equal(v.t, http.StatusOK, status)
	resource := powerCycle.remediations.Resource
	require.Contains(v.t, text, "Without "+resource+". The dashboard may not get "+resource+": grant its ServiceAccount the permission.")
	_, err := s.Shell(v.t.Context(), `kubectl create clusterrole nhc-dashboard-remediations --verb=get --resource=`+resource+`.`+powerCycle.remediations.Group+`
kubectl create clusterrolebinding nhc-dashboard-remediations --clusterrole=nhc-dashboard-remediations --serviceaccount=nhc-system:nhc-dashboard`)
	require.NoError(v.t, err)
	s.eventually("the page is complete", func() bool {
		_, text := v.get(path)
		return !strings.Contains(text, "This page is partial.")
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
