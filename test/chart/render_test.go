// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// TestSameAsManifests: the chart installs what kustomize makes of the manifests, in every
// installation that docs/installation.md describes.
func TestSameAsManifests(t *testing.T) {
	t.Parallel()
	everything := []string{"openshift.enabled=true", "clusterAPI.enabled=true", "machineHealthCheck.enabled=true", "monitoring.enabled=true", "dashboard.enabled=true"}
	for name, tc := range map[string]struct {
		namespace  string
		components []string
		values     []string
	}{
		"base":                 {},
		"openshift":            {components: []string{"openshift"}, values: []string{"openshift.enabled=true"}},
		"cluster-api":          {components: []string{"cluster-api"}, values: []string{"clusterAPI.enabled=true"}},
		"machine-health-check": {components: []string{"machine-health-check"}, values: []string{"machineHealthCheck.enabled=true"}},
		"machine-health-check of OpenShift": {
			components: []string{"openshift", "machine-health-check/without-crd"}, values: []string{"openshift.enabled=true", "machineHealthCheck.enabled=true"},
		},
		"machine-health-check elsewhere": {
			namespace: "node-health", components: []string{"machine-health-check", "namespace"}, values: []string{"machineHealthCheck.enabled=true"},
		},
		"monitoring": {components: []string{"monitoring"}, values: []string{"monitoring.enabled=true"}},
		"dashboard":  {components: []string{"dashboard"}, values: []string{"dashboard.enabled=true"}},
		"dashboard elsewhere": {
			namespace: "node-health", components: []string{"dashboard", "namespace"}, values: []string{"dashboard.enabled=true"},
		},
		"another namespace": {namespace: "node-health", components: []string{"namespace"}},
		"all of it":         {namespace: "node-health", components: []string{"openshift", "cluster-api", "machine-health-check/without-crd", "monitoring", "dashboard", "namespace"}, values: everything},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := tc.namespace
			if namespace == "" {
				namespace = "nhc-system"
			}
			dir := t.TempDir()
			require.NoError(t, deploy.WriteKustomization(dir, namespace, tc.components...))
			want := byIdentity(t, kustomize(t, dir))
			got := byIdentity(t, render(t, namespace, tc.values...))
			// Helm stores the release in its namespace, so that this cannot be part of the chart.
			require.Contains(t, want, "v1 Namespace  "+namespace)
			delete(want, "v1 Namespace  "+namespace)
			for id, object := range got {
				require.Contains(t, want, id)
				removeHelmMetadata(t, object)
				require.Equal(t, want[id].Object, object.Object, id)
			}
			require.Len(t, got, len(want))
		})
	}
}

// removeHelmMetadata removes what only objects of the chart have, and requires that they have
// it: labels, and on the CRD and the namespace of leases the annotation that keeps them.
func removeHelmMetadata(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	own := object.GetLabels()
	for _, label := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
		require.NotEmpty(t, own[label], "%s has no label %s", identity(object), label)
		delete(own, label)
	}
	object.SetLabels(own)
	annotations := object.GetAnnotations()
	kept := object.GetKind() == "CustomResourceDefinition" || object.GetKind() == "Namespace"
	require.Equal(t, kept, annotations["helm.sh/resource-policy"] == "keep", identity(object))
	delete(annotations, "helm.sh/resource-policy")
	if len(annotations) == 0 {
		annotations = nil
	}
	object.SetAnnotations(annotations)
}

// deployment returns the Deployment of the chart with values.
func deployment(t *testing.T, chart string, values ...string) *appsv1.Deployment {
	t.Helper()
	output, err := helm(t, append([]string{"template", release, chart, "--namespace", "nhc-system", "--show-only", "templates/deployment.yaml"}, set(values)...)...)
	require.NoError(t, err)
	for _, object := range parse(t, output) {
		if object.GetKind() == "Deployment" {
			var d appsv1.Deployment
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &d, true))
			return &d
		}
	}
	require.Fail(t, "no Deployment")
	return nil
}

// environment returns a variable of the container, empty without it.
func environment(d *appsv1.Deployment, name string) string {
	for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}

// TestGoMemoryLimit: the memory that Go may use follows the limit of the container.
func TestGoMemoryLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]string{"1Gi": "921MiB", "512Mi": "460MiB", "64Mi": "57MiB", "null": ""} {
		require.Equal(t, want, environment(deployment(t, chartDir, "resources.limits.memory="+limit), "GOMEMLIMIT"), limit)
	}
}

// TestPodValues: what the values say about the pods is in the Deployment.
func TestPodValues(t *testing.T) {
	t.Parallel()
	d := deployment(t, chartDir,
		"replicaCount=3", "priorityClassName=high", "nodeSelector.pool=infra", "tolerations=null", "topologySpreadConstraints=null",
		"affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1", "podAnnotations.a=b", "extraLabels.team=nodes",
		"extraArgs={--v=2,--concurrent-syncs=4}", "image.pullPolicy=Always", "imagePullSecrets[0].name=registry", "podLabels.on=pods", "extraEnv[0].name=A", "extraEnv[0].value=b",
		"extraVolumes[0].name=tls", "extraVolumes[0].secret.secretName=tls", "extraVolumeMounts[0].name=tls", "extraVolumeMounts[0].mountPath=/tls", "leaseNamespace.name=leases")
	template := d.Spec.Template
	pod := template.Spec
	require.Equal(t, int32(3), *d.Spec.Replicas)
	require.Equal(t, "high", pod.PriorityClassName)
	require.Equal(t, map[string]string{"kubernetes.io/os": "linux", "pool": "infra"}, pod.NodeSelector)
	require.Empty(t, pod.Tolerations)
	require.Empty(t, pod.TopologySpreadConstraints)
	require.Equal(t, int32(1), pod.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight)
	require.Equal(t, "b", template.Annotations["a"])
	require.Equal(t, map[string]string{"app.kubernetes.io/name": "nhc-controller", "team": "nodes", "on": "pods"}, template.Labels)
	require.NotContains(t, d.Labels, "on")
	require.Equal(t, "nodes", d.Labels["team"])
	require.Equal(t, map[string]string{"app.kubernetes.io/name": "nhc-controller"}, d.Spec.Selector.MatchLabels, "it can never be changed")
	require.Equal(t, []string{"--logging-format=json", "--v=2", "--concurrent-syncs=4"}, pod.Containers[0].Args)
	require.Equal(t, corev1.PullAlways, pod.Containers[0].ImagePullPolicy)
	require.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}}, pod.ImagePullSecrets)
	require.Equal(t, "leases", environment(d, "LEASE_NAMESPACE"))
	require.Equal(t, "b", environment(d, "A"))
	require.Equal(t, "tls", pod.Volumes[0].Secret.SecretName)
	require.Equal(t, []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}, pod.Containers[0].VolumeMounts)
}

// TestMetadataValues: labels and interval of what Prometheus reads, and annotations of the ServiceAccount.
func TestMetadataValues(t *testing.T) {
	t.Parallel()
	objects := byIdentity(t, render(t, "nhc-system", "monitoring.enabled=true", "monitoring.labels.release=prometheus", "monitoring.interval=1m", "serviceAccount.annotations.role=a"))
	for id, object := range objects {
		selected := strings.HasPrefix(id, "monitoring.coreos.com/v1 ")
		require.Equal(t, selected, object.GetLabels()["release"] == "prometheus", id)
		require.Equal(t, id == "v1 ServiceAccount nhc-system nhc-controller", object.GetAnnotations()["role"] == "a", id)
	}
	endpoints, _, err := unstructured.NestedSlice(objects["monitoring.coreos.com/v1 ServiceMonitor nhc-system nhc-controller"].Object, "spec", "endpoints")
	require.NoError(t, err)
	require.Equal(t, "1m", endpoints[0].(map[string]any)["interval"])
}

// TestRefusedValues: a wrong value is an error that names it.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"replicaCount=0":                            "at '/replicaCount': minimum: got 0, want 1",
		"replicaCount=two":                          "at '/replicaCount': got string, want integer",
		"replicas=2":                                "additional properties 'replicas' not allowed",
		"image.digest=latest":                       "at '/image/digest': 'latest' does not match pattern",
		"image.repository=registry/a@sha256:b":      "at '/image/repository'",
		"resources.limits.memory=1G":                "at '/resources/limits/memory': '1G' does not match pattern",
		"machineHealthCheck.crd=true":               "at '/machineHealthCheck': additional properties 'crd' not allowed",
		"openshift=true":                            "at '/openshift': got boolean, want object",
		"crds.keep=false":                           "at '/crds': additional properties 'keep' not allowed",
		`extraLabels.app\.kubernetes\.io/name=mine`: "invalid propertyName 'app.kubernetes.io/name'",
		"extraArgs={v=2}":                           "at '/extraArgs/0': 'v=2' does not match pattern",
		"dashboard=true":                            "at '/dashboard': got boolean, want object",
		"dashboard.resources.limits.memory=1G":      "at '/dashboard/resources/limits/memory': '1G' does not match pattern",
		"leaseNamespace.name=Leases":                "at '/leaseNamespace/name': 'Leases' does not match pattern",
		"leaseNamespace.name=nhc-system":            "leaseNamespace.name is the namespace of the release",
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			_, err := helm(t, "template", release, chartDir, "--namespace", "nhc-system", "--set", value)
			require.ErrorContains(t, err, want)
		})
	}
}

// TestLint: Helm finds nothing to improve.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, values := range combinations {
		_, err := helm(t, append([]string{"lint", "--strict", chartDir, "--namespace", "nhc-system"}, set(values)...)...)
		require.NoError(t, err)
	}
}

// TestPackage: Helm accepts the chart as a release has it. The digest is that of the
// release's image, and of no other one.
func TestPackage(t *testing.T) {
	t.Parallel()
	const repository = "ghcr.io/nhc-controller/nhc-controller"
	shipped := deployment(t, chartDir).Spec.Template.Spec.Containers[0].Image
	require.True(t, strings.HasPrefix(shipped, repository+":v"), shipped)
	require.NotContains(t, shipped, "@")
	packed := filepath.Join(t.TempDir(), "chart.tgz")
	_, err := run(exec.CommandContext(t.Context(), "go", "run", "../../hack/chart", "pack", chartDir, shipped+"@"+digest, packed))
	require.NoError(t, err)
	_, err = helm(t, "lint", "--strict", packed)
	require.NoError(t, err)
	tag := strings.TrimPrefix(shipped, repository)
	other := strings.ReplaceAll(digest, "0", "f")
	for values, want := range map[string]string{
		"":                                   shipped + "@" + digest,
		"image.repository=registry.local/a":  "registry.local/a" + tag + "@" + digest,
		"image.tag=v9":                       repository + ":v9",
		"image.digest=" + other:              repository + tag + "@" + other,
		"image.tag=v9,image.digest=" + other: repository + ":v9@" + other,
	} {
		var list []string
		if values != "" {
			list = []string{values}
		}
		require.Equal(t, want, deployment(t, packed, list...).Spec.Template.Spec.Containers[0].Image, values)
	}
}

// TestLeaseNamespace: the leases of nodes are elsewhere with all that belongs to them, and
// the namespace is created only if it is to be.
func TestLeaseNamespace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values []string
		want   []string
	}{
		"created": {
			values: []string{"leaseNamespace.name=leases"},
			want: []string{
				"v1 Namespace  leases",
				"rbac.authorization.k8s.io/v1 Role leases nhc-controller-node-leases",
				"rbac.authorization.k8s.io/v1 RoleBinding leases nhc-controller-node-leases",
			},
		},
		"there already": {
			values: []string{"leaseNamespace.create=false"},
			want: []string{
				"rbac.authorization.k8s.io/v1 Role medik8s-leases nhc-controller-node-leases",
				"rbac.authorization.k8s.io/v1 RoleBinding medik8s-leases nhc-controller-node-leases",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for id := range byIdentity(t, render(t, "nhc-system", tc.values...)) {
				if strings.Contains(id, "leases") {
					got = append(got, id)
				}
			}
			require.ElementsMatch(t, tc.want, got)
		})
	}
}
