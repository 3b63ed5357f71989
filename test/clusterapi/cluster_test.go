// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

const (
	namespace        = "machines"
	clusterName      = "this"
	clusterNameLabel = "cluster.x-k8s.io/cluster-name"
)

var (
	clusters = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	machines = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
	sets     = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinesets"}
)

// cluster is a self-managed cluster: Cluster API's controllers run in the cluster whose
// Machines they manage.
type cluster struct {
	*deploy.Cluster
	t        *testing.T
	provider *provider
}

// newCluster starts a control plane with Cluster API's controllers and the controller.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	controlPlane, err := localkube.Start(t.Context(), localkube.Options{AuditUsers: []string{deploy.User}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, controlPlane.Stop()) })
	connected, err := deploy.Connect(controlPlane)
	require.NoError(t, err)
	c := &cluster{Cluster: connected, t: t}
	c.installClusterAPI()
	c.kubectl("apply", "-f", filepath.Join("testdata", "infrastructure.yaml"))
	directory := t.TempDir()
	require.NoError(t, deploy.WriteKustomization(directory, deploy.Namespace, "cluster-api", "machine-health-check"))
	c.kubectl("apply", "-k", directory)
	c.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	c.kubectl("create", "namespace", namespace)

	c.provider = &provider{kube: c.Kube, dynamic: c.Dynamic}
	c.provider.start(t)
	startControllers(t, controlPlane.AdminConfig())
	controller, err := deploy.Start(t.Context(), controlPlane, deploy.Controller{Name: "nhc-controller", Args: []string{"-v=5"}})
	require.NoError(t, err)
	t.Cleanup(func() {
		controller.Stop()
		require.Empty(t, deploy.LogFaults(controller))
		if t.Failed() {
			t.Logf("log of the controller:\n%s", controller.LogTail())
		}
	})
	return c
}

func (c *cluster) kubectl(args ...string) {
	c.t.Helper()
	_, err := c.Kubectl(c.t.Context(), args...)
	require.NoError(c.t, err)
}

func (c *cluster) apply(manifest string) {
	c.t.Helper()
	_, err := c.KubectlInput(c.t.Context(), strings.NewReader(manifest), "apply", "-f", "-")
	require.NoError(c.t, err)
}

// installClusterAPI applies Cluster API's CRDs, each with the one version that its
// controllers use: for the others they would need its conversion webhook.
func (c *cluster) installClusterAPI() {
	c.t.Helper()
	directory, err := exec.CommandContext(c.t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	require.NoError(c.t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(directory)), "core", "config", "crd", "bases", "cluster.x-k8s.io_*.yaml"))
	require.NoError(c.t, err)
	require.NotEmpty(c.t, files)
	var all []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(c.t, err)
		var crd unstructured.Unstructured
		require.NoError(c.t, yaml.Unmarshal(content, &crd.Object))
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		require.NoError(c.t, err)
		var kept []any
		for _, version := range versions {
			if version.(map[string]any)["name"] == machines.Version {
				kept = append(kept, version)
			}
		}
		require.Len(c.t, kept, 1, file)
		require.NoError(c.t, unstructured.SetNestedSlice(crd.Object, kept, "spec", "versions"))
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
		manifest, err := yaml.Marshal(crd.Object)
		require.NoError(c.t, err)
		all = append(all, string(manifest))
	}
	_, err = c.KubectlInput(c.t.Context(), strings.NewReader(strings.Join(all, "\n---\n")), "apply", "--server-side", "-f", "-")
	require.NoError(c.t, err)
}

// create creates a Cluster with its Machines, and plays the controllers of the Cluster and
// of its control plane.
func (c *cluster) create(name string) {
	c.t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "cluster.yaml"))
	require.NoError(c.t, err)
	c.apply(strings.ReplaceAll(string(content), "NAME", name))
	// The owner of the control plane Machine: any controller may be one.
	owner, err := c.Kube.CoreV1().ConfigMaps(namespace).Create(c.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.UID, Controller: new(true)}
	c.patch(machines, name+"-control-plane", map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{reference}}})
	initialized := map[string]any{
		"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "",
		"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
	}
	c.patch(clusters, name, map[string]any{"status": map[string]any{
		"initialization": map[string]any{"infrastructureProvisioned": true, "controlPlaneInitialized": true},
		"conditions":     []any{initialized},
	}}, "status")
}

// connect lets Cluster API reach a Cluster: it is this one.
func (c *cluster) connect(name string) {
	c.t.Helper()
	kubeconfig, err := os.ReadFile(c.AdminKubeconfig())
	require.NoError(c.t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-kubeconfig", Labels: map[string]string{clusterNameLabel: name}},
		Data:       map[string][]byte{"value": kubeconfig},
	}
	_, err = c.Kube.CoreV1().Secrets(namespace).Create(c.t.Context(), secret, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) patch(resource schema.GroupVersionResource, name string, change map[string]any, subresources ...string) {
	c.t.Helper()
	patch, err := json.Marshal(change)
	require.NoError(c.t, err)
	_, err = c.Dynamic.Resource(resource).Namespace(namespace).Patch(c.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	require.NoError(c.t, err)
}

// eventually waits until something holds.
func (c *cluster) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience.Limit)
	defer cancel()
	for !holds() {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			output, err := c.Kubectl(t.Context(), "get", "-n", namespace, "-o", "yaml", "machines,machinesets,machinehealthchecks.machine.openshift.io")
			t.Fatalf("did not come: %s\n%s%v", what, output, err)
		}
	}
}

// workers returns the Machines of a Cluster that are not of its control plane, and are not
// being deleted.
func (c *cluster) workers(t *testing.T, name string) []unstructured.Unstructured {
	t.Helper()
	list, err := c.Dynamic.Resource(machines).Namespace(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "role=worker," + clusterNameLabel + "=" + name})
	require.NoError(t, err)
	var workers []unstructured.Unstructured
	for i := range list.Items {
		if list.Items[i].GetDeletionTimestamp() == nil {
			workers = append(workers, list.Items[i])
		}
	}
	return workers
}

func nodeOf(machine *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name")
	return name
}

// fail sets the condition Ready of a Node to Unknown.
func (c *cluster) fail(t *testing.T, node string) {
	t.Helper()
	condition := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "Test", LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	require.NoError(t, err)
	_, err = c.Kube.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

func (c *cluster) status(t *testing.T) v1beta1.MachineHealthCheckStatus {
	t.Helper()
	check, err := c.NHC.MachineV1beta1().MachineHealthChecks(namespace).Get(t.Context(), "all", metav1.GetOptions{})
	require.NoError(t, err)
	return check.Status
}

// eventuallyCounts waits until the MachineHealthCheck has these counts.
func (c *cluster) eventuallyCounts(t *testing.T, expected, healthy int) {
	t.Helper()
	c.eventually(t, "the counts", func() bool {
		status := c.status(t)
		return status.ExpectedMachines != nil && *status.ExpectedMachines == expected && *status.CurrentHealthy == healthy
	})
}

// deletions returns the names of the Machines that the controller asked to be deleted.
func (c *cluster) deletions(t *testing.T) []string {
	t.Helper()
	requests, err := c.RequestsWhere(time.Time{}, func(r *localkube.Request) bool {
		return r.User == deploy.User && r.Verb == "delete" && r.Resource == machines.Resource
	})
	require.NoError(t, err)
	var names []string
	for _, r := range requests {
		names = append(names, r.Name)
	}
	return names
}
