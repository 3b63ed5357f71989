// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestEtcdAllowsMachines: a control plane Machine without a Node has no member of etcd, so nothing
// keeps it from being replaced (spec M13.2, 12.5).
func TestEtcdAllowsMachines(t *testing.T) {
	t.Parallel()
	ready := func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	member := func(name string) *corev1.Node {
		return testNode(name, labelled("node-role.kubernetes.io/control-plane", ""), ready)
	}
	c := bareController()
	for _, name := range []string{"cp-0", "cp-1"} {
		require.NoError(t, c.NodeCache.Add(member(name)))
	}
	require.NoError(t, c.NodeCache.Add(testNode("unlabelled", ready)))
	kube := kubefake.NewClientset(member("unseen"))
	c.Kube = kube
	for name, tc := range map[string]struct {
		node string
		want bool
	}{
		"M13.2 the Node is gone":                          {node: "gone", want: true},
		"12.5 a member that the others cannot do without": {node: "cp-0"},
		"P5 a Node that the cache does not have":          {node: "unseen"},
		"12.5 one without the label counts as member":     {node: "unlabelled", want: true},
	} {
		allowed, err := c.etcdAllowsByNodes(t.Context(), tc.node)
		require.NoError(t, err, name)
		require.Equal(t, tc.want, allowed, name)
	}
	require.NoError(t, c.NodeCache.Delete(member("cp-1")))
	allowed, err := c.etcdAllowsByNodes(t.Context(), "unlabelled")
	require.NoError(t, err)
	require.False(t, allowed, "12.5: of two members each is needed")
	allowed, err = c.etcdAllows(t.Context(), "")
	require.NoError(t, err)
	require.True(t, allowed, "M13.2: there is no Node")

	kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("later")
	})
	allowed, err = c.etcdAllowsByNodes(t.Context(), "gone")
	require.Error(t, err, "P5: no answer is not an answer")
	require.False(t, allowed)
}
