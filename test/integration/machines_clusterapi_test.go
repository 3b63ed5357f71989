// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/test/machineset"
)

// clusterAPI has kinds of Cluster API in one version.
type clusterAPI struct{ machine, cluster, healthCheck optionalKind }

// clusterAPIIn returns the kinds of Cluster API where it serves one version only. Machines and
// MachineHealthChecks have their real schemas.
func clusterAPIIn(t *testing.T, version string) clusterAPI {
	t.Helper()
	return clusterAPI{
		machine:     onlyVersion(t, clusterAPIMachine, version),
		cluster:     untypedKind("cluster.x-k8s.io", version, "Cluster", false),
		healthCheck: onlyVersion(t, realClusterAPIHealthCheck, version),
	}
}

// realClusterAPIHealthCheck is the kind of Cluster API with its real schema.
var realClusterAPIHealthCheck = optionalKind{
	kind: clusterAPIHealthCheck.kind, resource: clusterAPIHealthCheck.resource, file: "capi/crd/cluster.x-k8s.io_machinehealthchecks.yaml",
}

// onlyVersion returns a kind that is served in one version.
func onlyVersion(t *testing.T, kind optionalKind, version string) optionalKind {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(remediatorManifests, kind.file))
	require.NoError(t, err)
	var crd map[string]any
	require.NoError(t, yaml.Unmarshal(content, &crd))
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	require.NoError(t, err)
	for _, item := range versions {
		served := item.(map[string]any)
		served["served"], served["storage"] = served["name"] == version, served["name"] == version
	}
	require.NoError(t, unstructured.SetNestedSlice(crd, versions, "spec", "versions"))
	manifest, err := yaml.Marshal(crd)
	require.NoError(t, err)
	kind.resource.Version = version
	kind.file, kind.manifest = "", string(manifest)
	return kind
}

// testClusterPaused: Machines of a paused Cluster, and those that Cluster API's own MachineHealthCheck
// is about, are left alone until that ends (spec M4.4, M9.2).
func testClusterPaused(t *testing.T, c *cluster, kinds clusterAPI) {
	s := newMachineScenario(t, c, kinds.machine)
	clusters := c.dynamic.Resource(kinds.cluster.resource).Namespace(s.name)
	patchCluster := func(patch string) {
		_, err := clusters.Patch(t.Context(), "this", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	c.createOptional(t, kinds.cluster, s.name, "this", map[string]any{"spec": map[string]any{"paused": true}})
	c.createOptional(t, kinds.healthCheck, s.name, "theirs", map[string]any{
		"spec":   map[string]any{"clusterName": "this", "selector": map[string]any{"matchLabels": map[string]any{"role": "worker"}}},
		"status": map[string]any{"targets": []any{"theirs"}},
	})
	for _, machine := range []string{"mine", "theirs", "late"} {
		s.createMachine(machine, machineset.Finalized)
		s.join(machine)
	}
	// What their controller leaves on a Machine is no sign: it outlives their MachineHealthCheck.
	require.NoError(t, s.provided.PatchStatus(t.Context(), "theirs", map[string]any{"conditions": []any{map[string]any{
		"type": "HealthCheckSucceeded", "status": "False", "reason": "UnhealthyNode", "message": "of the test", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}}}))
	s.createCheck()
	s.eventuallyCounts(3, 3)
	s.setReady("mine", corev1.ConditionUnknown)
	s.setReady("theirs", corev1.ConditionUnknown)
	s.eventuallyDecided("mine", "ClusterPaused")
	s.eventuallyDecided("theirs", "ClusterPaused")

	patchCluster(`{"metadata":{"annotations":{"` + v1beta1.AnnotationPaused + `":""}}}`)
	patchCluster(`{"spec":{"paused":false}}`)
	s.setReady("late", corev1.ConditionUnknown)
	s.eventuallyDecided("late", "ClusterPaused")
	require.Empty(t, s.events("Machine", "mine", "RemediationSkipped"), "M17.1: none for a pause")
	require.Empty(t, s.deleteRequests(""))

	patchCluster(`{"metadata":{"annotations":null}}`)
	s.eventuallyDecided("mine", "MachineDeleting")
	s.eventuallyDecided("late", "MachineDeleting")
	require.Contains(t, s.eventuallyDecided("theirs", "OtherHealthCheck").Decision.Message, "of Cluster API")
	require.Empty(t, s.deleteRequests("theirs"), "M4.4")

	require.NoError(t, c.dynamic.Resource(kinds.healthCheck.resource).Namespace(s.name).Delete(t.Context(), "theirs", metav1.DeleteOptions{}))
	s.eventuallyDecided("theirs", "MachineDeleting")
	require.Len(t, s.deleteRequests(""), 3, "M10.2: one request for each")
}
