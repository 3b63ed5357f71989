// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// way is a way to install and to uninstall the controller. Its commands are those of the
// documentation.
type way struct {
	name      string
	namespace string
	install   []string
	uninstall []string
	// crd is a CRD that stays besides those of NodeHealthChecks and RemediationBudgets.
	crd string
	// own says that the commands are run in a directory with a kustomization of the user's own.
	own bool
}

var ways = []way{
	{name: "kubectl", namespace: deploy.Namespace, install: []string{"kubectl apply --server-side -f manifests/install.yaml"}, uninstall: deleteManifests},
	{name: "kustomize", namespace: deploy.Namespace, install: []string{"kubectl apply --server-side -k manifests/base"}, uninstall: deleteManifests},
	{name: "openshift", namespace: deploy.Namespace, install: []string{"kubectl apply --server-side -k manifests/overlays/openshift"}, uninstall: deleteManifests},
	{name: "cluster-api", namespace: deploy.Namespace, install: []string{"kubectl apply --server-side -k manifests/overlays/cluster-api"}, uninstall: deleteManifests},
	{name: "machine-health-check", namespace: deploy.Namespace, install: []string{"kubectl apply --server-side -k manifests/overlays/machine-health-check"}, uninstall: deleteManifests, crd: machineCRD},
	{name: "components", namespace: "node-health", install: []string{"kubectl apply --server-side -k ."}, uninstall: []string{"kubectl delete -k . --ignore-not-found"}, own: true, crd: machineCRD},
	{
		name: "helm", namespace: deploy.Namespace,
		install: []string{
			"kubectl create namespace nhc-system",
			"kubectl label namespace nhc-system pod-security.kubernetes.io/{enforce,audit,warn}=restricted",
			"helm install nhc-controller charts/nhc-controller --namespace nhc-system",
		},
		uninstall: []string{"helm uninstall nhc-controller --namespace nhc-system", "kubectl delete namespace nhc-system"},
	},
}

const machineCRD = "machinehealthchecks.machine.openshift.io"

// deleteManifests is how an installation in nhc-system is removed that Helm has not made.
var deleteManifests = []string{"kubectl delete -k manifests/uninstall --ignore-not-found"}

// removeRest removes what uninstalling leaves.
var removeRest = []string{
	"kubectl delete nhc --all --cascade=foreground",
	"kubectl delete crd nodehealthchecks.remediation.medik8s.io remediationbudgets.nhc-controller.io",
	"kubectl delete namespace medik8s-leases",
}

// cluster is a control plane that admits pods as platforms do, and clients of an admin.
type cluster struct{ *deploy.Cluster }

// TestInstall uses one control plane in each way, one after the other, so that leftovers
// of one would be in the way of the next one.
func TestInstall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	controlPlane, err := localkube.Start(ctx, localkube.Options{PodAdmission: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, controlPlane.Stop()) })
	connected, err := deploy.Connect(controlPlane)
	require.NoError(t, err)
	c := &cluster{connected}
	c.apply(t, remediator.Manifest, deploy.PlatformKinds)
	_, err = c.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	require.NoError(t, err)
	c.apply(t, remediator.TemplateManifest)
	for _, node := range []string{"a", "b", "c"} {
		c.createNode(t, node)
	}
	before := c.objects(t)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { c.test(t, w, before) })
	}
}

// test installs, remediates, uninstalls, and removes the rest.
func (c *cluster) test(t *testing.T, w way, before objects) {
	c.run(t, w, w.install)
	_, err := c.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	require.NoError(t, err)
	require.NoError(t, deploy.AwaitRBAC(t.Context(), c.ControlPlane, remediator.Resource.Group))
	c.eventuallyAdmitted(t, w.namespace)
	controller, err := deploy.Start(t.Context(), c.ControlPlane, deploy.Controller{Name: w.name, Namespace: w.namespace})
	require.NoError(t, err)
	t.Cleanup(func() {
		controller.Stop()
		require.Empty(t, deploy.LogFaults(controller))
		if t.Failed() {
			t.Log(controller.LogTail())
		}
	})
	_, err = c.AwaitLeader(t.Context(), w.namespace, w.name)
	require.NoError(t, err)

	c.apply(t, remediator.NodeHealthCheckManifest)
	c.setReady(t, "a", corev1.ConditionUnknown)
	c.eventuallyRemediated(t, "a", true)
	c.setReady(t, "a", corev1.ConditionTrue)
	c.eventuallyRemediated(t, "a", false)

	c.setReady(t, "b", corev1.ConditionUnknown)
	c.eventuallyRemediated(t, "b", true)
	stop, err := os.ReadFile(filepath.Join("..", "..", "manifests", "samples", "budget-stop-everything.yaml"))
	require.NoError(t, err)
	c.apply(t, string(stop))
	installed := c.objects(t)
	require.ErrorContains(t, c.shell(t, w, "kubectl delete nhc --all"), "deletion prohibited due to running remediation")
	controller.Stop()
	c.run(t, w, w.uninstall)
	left := []string{
		"customresourcedefinitions.apiextensions.k8s.io /nodehealthchecks.remediation.medik8s.io",
		"customresourcedefinitions.apiextensions.k8s.io /remediationbudgets.nhc-controller.io",
		"leases.coordination.k8s.io medik8s-leases/node-b",
		"namespaces /medik8s-leases",
		"nodehealthchecks.remediation.medik8s.io /workers",
		"powercycleremediations.demo.nhc-controller.io default/b",
		"remediationbudgets.nhc-controller.io /stop-everything",
		"serviceaccounts medik8s-leases/default",
	}
	if w.crd != "" {
		left = slices.Insert(left, 0, "customresourcedefinitions.apiextensions.k8s.io /"+w.crd)
	}
	c.eventuallyLeft(t, before, left)
	after := c.objects(t)
	for _, kept := range []string{
		"nodehealthchecks.remediation.medik8s.io /workers", "powercycleremediations.demo.nhc-controller.io default/b", "remediationbudgets.nhc-controller.io /stop-everything",
	} {
		require.Equal(t, installed[kept], after[kept], "it is the same as before")
	}

	c.run(t, w, removeRest)
	if w.crd != "" {
		c.run(t, w, []string{"kubectl delete crd " + w.crd})
	}
	c.setReady(t, "b", corev1.ConditionTrue)
	c.eventuallyLeft(t, before, nil)
}

// run runs commands. The documentation has to contain all of them.
func (c *cluster) run(t *testing.T, w way, commands []string) {
	t.Helper()
	var documented strings.Builder
	for _, page := range []string{"installation.md", "migration.md"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		require.NoError(t, err)
		documented.Write(content)
	}
	for _, command := range commands {
		require.Contains(t, documented.String(), command, "the documentation has another command")
		require.NoError(t, c.shell(t, w, command))
	}
}

// shell runs a command where the user of a way would.
func (c *cluster) shell(t *testing.T, w way, command string) error {
	t.Helper()
	executable := os.Getenv("NHC_HELM")
	require.NotEmpty(t, executable, "NHC_HELM has to name Helm: run make install-test")
	dir := filepath.Join("..", "..")
	if w.own {
		components := []string{"openshift", "cluster-api", "machine-health-check", "monitoring", "dashboard"}
		if strings.Contains(command, "delete -k") {
			components = append(components, "uninstall")
		}
		dir = t.TempDir()
		require.NoError(t, deploy.WriteKustomization(dir, w.namespace, append(components, "namespace")...))
	}
	_, err := c.Shell(t.Context(), `helm() { "$NHC_HELM" "$@"; }; cd "$DIR"; `+command, "NHC_HELM="+executable, "DIR="+dir)
	return err
}

// apply applies manifests.
func (c *cluster) apply(t *testing.T, manifests ...string) {
	t.Helper()
	for _, manifest := range manifests {
		_, err := c.KubectlInput(t.Context(), strings.NewReader(manifest), "apply", "-f", "-")
		require.NoError(t, err)
	}
}

// eventuallyAdmitted waits until both pods of the Deployment are admitted.
func (c *cluster) eventuallyAdmitted(t *testing.T, namespace string) {
	t.Helper()
	patience.Eventually(t, "the pods", func() bool {
		pods, err := c.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nhc-controller"})
		require.NoError(t, err)
		return len(pods.Items) == 2
	})
}

// createNode creates a node that is Ready.
func (c *cluster) createNode(t *testing.T, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}}
	_, err := c.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	c.setReady(t, name, corev1.ConditionTrue)
}

// setReady sets a condition that has been so for an hour.
func (c *cluster) setReady(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
	}}
	_, err = c.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// eventuallyRemediated waits until a node has a remediation object that status shows, or
// neither.
func (c *cluster) eventuallyRemediated(t *testing.T, node string, want bool) {
	t.Helper()
	patience.Eventually(t, "the remediation of "+node, func() bool {
		_, err := c.Dynamic.Resource(remediator.Resource).Namespace(metav1.NamespaceDefault).Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			require.True(t, apierrors.IsNotFound(err), "%v", err)
		}
		exists := err == nil
		nhc, err := c.NHC.RemediationV1alpha1().NodeHealthChecks().Get(t.Context(), "workers", metav1.GetOptions{})
		require.NoError(t, err)
		listed := len(nhc.Status.UnhealthyNodes) == 1 && len(nhc.Status.UnhealthyNodes[0].Remediations) == 1
		return exists == want && listed == want
	})
}
