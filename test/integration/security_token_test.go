// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// nodePolicy is the policy that says what the controller may change of a Node.
const nodePolicy = "nhc-controller-nodes"

// stolenToken is somebody who has the token of the controller.
type stolenToken struct {
	*cluster
	*testing.T
	thief kubernetes.Interface
	node  *corev1.Node
}

// TestStolenToken: its token cannot do what the controller does not do.
func TestStolenToken(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	config, err := c.ServiceAccountConfig(t.Context(), deploy.Namespace, deploy.ServiceAccount)
	require.NoError(t, err)
	s := &stolenToken{cluster: c, T: t}
	s.thief, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	s.node, err = c.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "victim",
			Labels:          map[string]string{"role": "worker"},
			Annotations:     map[string]string{v1alpha1.AnnotationManuallyConfirmedHealthy: "by Kim", "keep": "this"},
			Finalizers:      []string{"example.com/hold"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "1"}},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	patience.Eventually(t, "the policy is in force", func() bool {
		return s.patchNode(s.thief, types.MergePatchType, map[string]any{"spec": map[string]any{"unschedulable": true}}) != nil
	})
	t.Run("policy", func(t *testing.T) { s.sub(t).testPolicyIsSound() })
	t.Run("nodes", func(t *testing.T) { s.sub(t).testNodes() })
	t.Run("nodes, with all permissions", func(t *testing.T) {
		c.makeAdmin(t)
		s.sub(t).testNodesAsAdmin()
		s.sub(t).testNodes()
	})
	t.Run("nodes, by others", func(t *testing.T) { s.sub(t).testOthers() })
	t.Run("nodes, what the controller does", func(t *testing.T) { s.sub(t).testRemovesConfirmation() })
}

// makeAdmin makes the controller an admin, by mistake.
func (c *cluster) makeAdmin(t *testing.T) {
	t.Helper()
	_, err := c.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "mistake"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: deploy.Namespace, Name: deploy.ServiceAccount}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (s *stolenToken) sub(t *testing.T) *stolenToken {
	sub := *s
	sub.T = t
	return &sub
}

// testPolicyIsSound: the API server has found nothing wrong with the expressions.
func (s *stolenToken) testPolicyIsSound() {
	policies := s.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	for _, name := range []string{nodePolicy, "nhc-controller-deletion"} {
		patience.Eventually(s.T, "the types of the policy "+name+" are checked", func() bool {
			policy, err := policies.Get(s.Context(), name, metav1.GetOptions{})
			require.NoError(s, err)
			if policy.Status.ObservedGeneration != policy.Generation || policy.Status.TypeChecking == nil {
				return false
			}
			require.Empty(s, policy.Status.TypeChecking.ExpressionWarnings, name)
			return true
		})
	}
}

// requireForbidden requires that an attempt is refused with these words.
func (s *stolenToken) requireForbidden(what string, err error, words string) {
	s.Helper()
	require.Error(s, err, what)
	require.True(s, apierrors.IsForbidden(err), "%s: %v", what, err)
	require.ErrorContains(s, err, words, what)
	s.Logf("%s:\n%v", what, err)
}

// requireRefused requires that the policy of nodes refuses.
func (s *stolenToken) requireRefused(what string, err error, rule string) {
	s.Helper()
	s.requireForbidden(what, err, "ValidatingAdmissionPolicy '"+nodePolicy+"' with binding '"+nodePolicy+"' denied request: nhc-controller may "+rule)
}

// patchNode patches the node as a dry run, which admission sees like any other write.
func (s *stolenToken) patchNode(who kubernetes.Interface, patchType types.PatchType, patch any, subresources ...string) error {
	encoded, err := json.Marshal(patch)
	require.NoError(s, err)
	var force *bool
	if patchType == types.ApplyPatchType {
		force = new(true)
	}
	_, err = who.CoreV1().Nodes().Patch(s.Context(), s.node.Name, patchType, encoded, metav1.PatchOptions{DryRun: dryRun, FieldManager: "thief", Force: force}, subresources...)
	return err
}

// changesOfNodes are forbidden changes with the token, and which rule forbids them.
func changesOfNodes() map[string]struct {
	patch map[string]any
	rule  string
} {
	const (
		confirmation = v1alpha1.AnnotationManuallyConfirmedHealthy
		onlyRemove   = "only remove annotation remediation.medik8s.io/manually-confirmed-healthy of a node"
		labels       = "not change labels of a node"
		finalizers   = "not change finalizers of a node"
		owners       = "not change owners of a node"
		spec         = "not change the spec of a node, taints among it"
	)
	metadata := func(values map[string]any) map[string]any { return map[string]any{"metadata": values} }
	return map[string]struct {
		patch map[string]any
		rule  string
	}{
		"confirm another way":      {metadataPatch("annotations", map[string]any{confirmation: "by a thief"}), onlyRemove},
		"add an annotation":        {metadataPatch("annotations", map[string]any{"new": ""}), onlyRemove},
		"change an annotation":     {metadataPatch("annotations", map[string]any{"keep": "that"}), onlyRemove},
		"remove an annotation":     {metadataPatch("annotations", map[string]any{"keep": nil}), onlyRemove},
		"remove all annotations":   {metadata(map[string]any{"annotations": nil}), onlyRemove},
		"exclude from remediation": {metadataPatch("labels", map[string]any{v1alpha1.LabelExclude: "true"}), labels},
		"change a label":           {metadataPatch("labels", map[string]any{"role": "control-plane"}), labels},
		"remove a label":           {metadataPatch("labels", map[string]any{"role": nil}), labels},
		"remove all labels":        {metadata(map[string]any{"labels": nil}), labels},
		"add a finalizer":          {metadata(map[string]any{"finalizers": []string{"example.com/hold", "example.com/thief"}}), finalizers},
		"remove the finalizers":    {metadata(map[string]any{"finalizers": nil}), finalizers},
		"remove the owners":        {metadata(map[string]any{"ownerReferences": nil}), owners},
		"cordon":                   {map[string]any{"spec": map[string]any{"unschedulable": true}}, spec},
		"remove the taints":        {map[string]any{"spec": map[string]any{"taints": nil}}, spec},
		"evict everything": {map[string]any{"spec": map[string]any{"taints": []any{
			map[string]any{"key": "broken", "effect": "NoSchedule"}, map[string]any{"key": "gone", "effect": "NoExecute"},
		}}}, spec},
		"name the machine": {map[string]any{"spec": map[string]any{"providerID": "aws:///zone/i-0"}}, spec},
		"one thing under cover of another": {map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{confirmation: nil}},
			"spec":     map[string]any{"unschedulable": true},
		}, spec},
	}
}

// testNodes: the policy refuses what RBAC cannot tell apart.
func (s *stolenToken) testNodes() {
	for what, attempt := range changesOfNodes() {
		s.requireRefused(what, s.patchNode(s.thief, types.MergePatchType, attempt.patch), attempt.rule)
	}
	s.requireRefused("by another kind of patch", s.patchNode(s.thief, types.JSONPatchType, []any{
		map[string]any{"op": "add", "path": "/metadata/labels/role", "value": "control-plane"},
	}), "not change labels of a node")
	s.requireRefused("by an apply", s.patchNode(s.thief, types.ApplyPatchType, map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": s.node.Name}, "spec": map[string]any{"unschedulable": true},
	}), "not change the spec of a node")
}

// testNodesAsAdmin: somebody has made the controller an admin, by mistake. Nodes are
// as safe as before.
func (s *stolenToken) testNodesAsAdmin() {
	const never = "not create, delete or connect to nodes, nor write their status"
	nodes := s.thief.CoreV1().Nodes()
	patience.Eventually(s.T, "the permission to delete nodes", func() bool {
		return !apierrors.IsForbidden(nodes.Delete(s.Context(), "unknown", metav1.DeleteOptions{DryRun: dryRun}))
	})
	_, err := nodes.Create(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ghost"}}, metav1.CreateOptions{DryRun: dryRun})
	s.requireRefused("create a node", err, never)
	s.requireRefused("delete a node", nodes.Delete(s.Context(), s.node.Name, metav1.DeleteOptions{DryRun: dryRun}), never)
	s.requireRefused("delete all nodes", nodes.DeleteCollection(s.Context(), metav1.DeleteOptions{DryRun: dryRun}, metav1.ListOptions{}), never)
	s.requireRefused("report a condition", s.patchNode(s.thief, types.MergePatchType, map[string]any{
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False"}}},
	}, "status"), never)
	err = s.thief.CoreV1().RESTClient().Get().Resource("nodes").Name(s.node.Name).SubResource("proxy").Suffix("pods").Do(s.Context()).Error()
	s.requireRefused("talk to a kubelet", err, never)
	changed := s.node.DeepCopy()
	changed.Spec.Unschedulable = true
	_, err = nodes.Update(s.Context(), changed, metav1.UpdateOptions{DryRun: dryRun})
	s.requireRefused("replace a node", err, "not change the spec of a node")
}

// testOthers: other users may do the same.
func (s *stolenToken) testOthers() {
	for what, attempt := range changesOfNodes() {
		require.NoError(s, s.patchNode(s.kube, types.MergePatchType, attempt.patch), what)
	}
	require.NoError(s, s.kube.CoreV1().Nodes().Delete(s.Context(), s.node.Name, metav1.DeleteOptions{DryRun: dryRun}))
}

// testRemovesConfirmation: the permitted change, in every form of a patch.
func (s *stolenToken) testRemovesConfirmation() {
	const confirmation = v1alpha1.AnnotationManuallyConfirmedHealthy
	remove := metadataPatch("annotations", map[string]any{confirmation: nil})
	for _, patchType := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		require.NoError(s, s.patchNode(s.thief, patchType, remove))
	}
	require.NoError(s, s.patchNode(s.thief, types.JSONPatchType, []any{
		map[string]any{"op": "remove", "path": "/metadata/annotations/remediation.medik8s.io~1manually-confirmed-healthy"},
	}))
	require.NoError(s, s.patchNode(s.thief, types.MergePatchType, map[string]any{}), "nothing at all")

	encoded, err := json.Marshal(remove)
	require.NoError(s, err)
	node, err := s.thief.CoreV1().Nodes().Patch(s.Context(), s.node.Name, types.MergePatchType, encoded, metav1.PatchOptions{})
	require.NoError(s, err)
	require.Equal(s, map[string]string{"keep": "this"}, node.Annotations)
	require.Equal(s, s.node.Spec, node.Spec)
	// It was the last annotation of this one.
	bare, err := s.kube.CoreV1().Nodes().Create(s.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "bare", Annotations: map[string]string{confirmation: ""}},
	}, metav1.CreateOptions{})
	require.NoError(s, err)
	node, err = s.thief.CoreV1().Nodes().Patch(s.Context(), bare.Name, types.MergePatchType, encoded, metav1.PatchOptions{})
	require.NoError(s, err)
	require.Empty(s, node.Annotations)
}
