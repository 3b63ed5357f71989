// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

func TestPatch(t *testing.T) {
	t.Parallel()
	server := New(Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), Kind: "Node"})
	client, err := kubernetes.NewForConfig(server.NewClient("test", nil).Config())
	require.NoError(t, err)
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"b": "", "c": ""}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	patched, err := client.CoreV1().Nodes().Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"uid":"`+string(node.UID)+`","annotations":{"b":null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"c": ""}, patched.Annotations)
	_, err = client.CoreV1().Nodes().Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"uid":"other","annotations":{"c":null}}}`), metav1.PatchOptions{})
	require.Error(t, err)
}
