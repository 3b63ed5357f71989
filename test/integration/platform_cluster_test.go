// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// optionalKind is a kind of OpenShift or Cluster API, which may come and go.
type optionalKind struct {
	kind     string
	resource schema.GroupVersionResource
	// file is that of the real CRD, in remediatorManifests.
	file string
	// manifest is the CRD of the tests' own where there is no file.
	manifest string
}

// optional returns a kind with the real CRD in a file.
func optional(kind, group, version, file string) optionalKind {
	resource := schema.GroupVersionResource{Group: group, Version: version, Resource: strings.ToLower(kind) + "s"}
	return optionalKind{kind: kind, resource: resource, file: file}
}

var (
	machineHealthCheck        = optional("MachineHealthCheck", "machine.openshift.io", "v1beta1", "openshift/crd/0000_10_machine-api_01_machinehealthchecks.crd.yaml")
	openShiftMachine          = optional("Machine", "machine.openshift.io", "v1beta1", "openshift/crd/0000_10_machine-api_01_machines-Default.crd.yaml")
	clusterAPIMachine         = optional("Machine", "cluster.x-k8s.io", "v1beta2", "capi/crd/cluster.x-k8s.io_machines.yaml")
	metal3Remediation         = optional("Metal3Remediation", "infrastructure.cluster.x-k8s.io", "v1beta2", "metal3/crd/infrastructure.cluster.x-k8s.io_metal3remediations.yaml")
	metal3RemediationTemplate = optional("Metal3RemediationTemplate", "infrastructure.cluster.x-k8s.io", "v1beta2", "metal3/crd/infrastructure.cluster.x-k8s.io_metal3remediationtemplates.yaml")

	clusterVersion = optionalKind{
		kind:     "ClusterVersion",
		resource: schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "clusterversions"},
		manifest: `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterversions.config.openshift.io
  annotations:
    api-approved.kubernetes.io: unapproved, of a test
spec:
  group: config.openshift.io
  names: {kind: ClusterVersion, listKind: ClusterVersionList, plural: clusterversions, singular: clusterversion}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`,
	}
)

// metal3 is the kind of a real remediator whose objects belong to a Machine.
var metal3 = remediationKind{name: metal3Remediation.kind, remediations: metal3Remediation.resource, templates: metal3RemediationTemplate.resource}

// machineNamespace is that of OpenShift's Machines.
const machineNamespace = "openshift-machine-api"

func (k optionalKind) crd() string { return k.resource.GroupResource().String() }

// applyOverlay installs the controller as it is meant for a platform.
func (c *cluster) applyOverlay(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, deploy.InstallOverlay(t.Context(), c.ControlPlane, name))
}

// installOptional installs kinds and waits until they are served.
func (c *cluster) installOptional(t *testing.T, kinds ...optionalKind) {
	t.Helper()
	for _, kind := range kinds {
		var err error
		if kind.file == "" {
			_, err = c.KubectlInput(t.Context(), strings.NewReader(kind.manifest), "apply", "-f", "-")
		} else {
			_, err = c.Kubectl(t.Context(), "apply", "-f", filepath.Join(remediatorManifests, kind.file))
		}
		require.NoError(t, err)
		c.eventuallyServed(t, kind, true)
	}
}

// uninstallOptional deletes a kind with all its objects.
func (c *cluster) uninstallOptional(t *testing.T, kind optionalKind) {
	t.Helper()
	_, err := c.Kubectl(t.Context(), "delete", "crd", "--timeout=60s", kind.crd())
	require.NoError(t, err)
	c.eventuallyServed(t, kind, false)
}

func (c *cluster) eventuallyServed(t *testing.T, kind optionalKind, served bool) {
	t.Helper()
	patience.Eventually(t, kind.crd()+" is served, or is not", func() bool {
		_, err := c.dynamic.Resource(kind.resource).List(t.Context(), metav1.ListOptions{})
		return (err == nil) == served
	})
}

// createOptional creates an object of an optional kind. Its status is written too.
func (c *cluster) createOptional(t *testing.T, kind optionalKind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(kind.resource.GroupVersion().WithKind(kind.kind))
	object.SetName(name)
	status, hasStatus := content["status"]
	created, err := c.dynamic.Resource(kind.resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	if hasStatus {
		created.Object["status"] = status
		created, err = c.dynamic.Resource(kind.resource).Namespace(namespace).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	return created
}

// watching is the spec of a MachineHealthCheck that looks at conditions of these
// types.
func watching(conditions ...string) map[string]any {
	var list []any
	for _, condition := range conditions {
		list = append(list, map[string]any{"type": condition, "status": "True", "timeout": "300s"})
	}
	return map[string]any{"spec": map[string]any{
		"selector":            map[string]any{"matchLabels": map[string]any{"role": "worker"}},
		"unhealthyConditions": list,
	}}
}

// progressing is the content of a ClusterVersion.
func progressing(status, message string) map[string]any {
	return map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Available", "status": "True", "message": message},
		map[string]any{"type": "Progressing", "status": status, "message": message},
	}}}
}

const upgradePostponed = "Postponing potential remediations because of ongoing cluster upgrade"

// annotateNode sets annotations of a node, and removes those that are nil.
func (s *scenario) annotateNode(name string, annotations map[string]any) {
	s.t.Helper()
	s.patch(s.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), s.node(name), metadataPatch("annotations", annotations))
}
