// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestGoneMachines: a Machine is gone if the API server says so, and not if it cannot be read (FR-325).
func TestGoneMachines(t *testing.T) {
	t.Parallel()
	machine := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine"}}
	machine.SetNamespace("capi")
	machine.SetName("there")
	openShift := func(name string) map[string]string {
		return map[string]string{remediation.AnnotationOpenShiftMachine: name}
	}
	clusterAPI := func(name string) map[string]string {
		return map[string]string{remediation.AnnotationClusterAPINamespace: "capi", remediation.AnnotationClusterAPIMachine: name}
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		refusal     error
		want        []string
	}{
		"a Node without Machine": {},
		"there":                  {annotations: clusterAPI("there")},
		"deleted":                {annotations: clusterAPI("deleted"), want: []string{"Machine capi/deleted of cluster.x-k8s.io"}},
		"not served":             {annotations: openShift("a/b")},
		"not permitted":          {annotations: clusterAPI("deleted"), refusal: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))},
		"not served any more":    {annotations: clusterAPI("deleted"), refusal: apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "404 page not found", 0, true)},
	} {
		client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), machine)
		client.PrependReactor("get", "machines", func(clienttesting.Action) (bool, runtime.Object, error) { return tc.refusal != nil, nil, tc.refusal })
		mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "cluster.x-k8s.io", Version: "v1beta2"}})
		mapper.Add(machine.GroupVersionKind(), meta.RESTScopeNamespace)
		clients := &Clients{Dynamic: client, Mapper: func() (meta.RESTMapper, error) { return mapper, nil }}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: tc.annotations}}
		gone, err := clients.goneMachines(t.Context(), &view.Snapshot{Nodes: []*corev1.Node{node}}, "node")
		require.NoError(t, err, name)
		require.Equal(t, tc.want, gone, name)
	}
}

// TestTrim: what the views show of a Node is kept.
func TestTrim(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: make([]metav1.ManagedFieldsEntry, 1)},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a"}}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Address: "a"}}, NodeInfo: corev1.NodeSystemInfo{SystemUUID: "a"}, Images: make([]corev1.ContainerImage, 1)},
	}
	kept, err := trim(node.DeepCopy())
	require.NoError(t, err)
	node.ManagedFields, node.Status.Images = nil, nil
	require.Equal(t, node, kept)
}

// TestConditionsAsTheControllerReadsThem: a time that is none hides no condition (spec 11.7).
func TestConditionsAsTheControllerReadsThem(t *testing.T) {
	t.Parallel()
	cr := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Succeeded", "status": "True", "lastTransitionTime": "yesterday", "reason": int64(7)}, "none", map[string]any{"status": "True"},
	}}}}
	require.Equal(t, []view.Condition{{Type: "Succeeded", Status: "True"}}, conditionsOf(cr))
}
