// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

// serviceAccount creates a ServiceAccount that may read ConfigMaps, and a client
// that is this ServiceAccount.
func serviceAccount(t *testing.T, namespace, name string) *kubernetes.Clientset {
	t.Helper()
	cluster, admin := sharedCluster(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}},
	}
	_, err = admin.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)

	config, err := cluster.ServiceAccountConfig(t.Context(), namespace, name)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	patience.Eventually(t, "the API server knows the RoleBinding", func() bool {
		_, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "none", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	return client
}

// Not parallel: the API server is gone for a while.
func TestAPIServerRestartKeepsData(t *testing.T) {
	cluster, client := sharedCluster(t)
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"a": "b"}}
	written, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), written, metav1.CreateOptions{})
	require.NoError(t, err)

	require.NoError(t, cluster.StopAPIServer())
	require.Error(t, cluster.StopAPIServer(), "a second time")
	_, err = client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	require.ErrorContains(t, err, "connection refused")

	require.NoError(t, cluster.StartAPIServer(t.Context()))
	read, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, written.UID, read.UID)
	require.Equal(t, written.ResourceVersion, read.ResourceVersion)
}

func TestVersionIsThatOfKubernetes(t *testing.T) {
	t.Parallel()
	_, client := sharedCluster(t)
	version, err := client.Discovery().ServerVersion()
	require.NoError(t, err)
	require.Regexp(t, `^v1\.\d+\.\d+$`, version.GitVersion)
	require.Equal(t, version.GitVersion[:strings.LastIndex(version.GitVersion, ".")], "v"+version.Major+"."+version.Minor)
}

func TestServiceAccountIsSubjectToRBAC(t *testing.T) {
	t.Parallel()
	client := serviceAccount(t, "default", "reader")
	_, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, `User "system:serviceaccount:default:reader"`)
}

func TestServiceAccountMustExist(t *testing.T) {
	t.Parallel()
	cluster, _ := sharedCluster(t)
	_, err := cluster.ServiceAccountConfig(t.Context(), "default", "unknown")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestKubectl(t *testing.T) {
	t.Parallel()
	cluster, _ := sharedCluster(t)
	out, err := cluster.KubectlInput(t.Context(), strings.NewReader(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"by-kubectl"}}`),
		"apply", "-f", "-")
	require.NoError(t, err)
	require.Equal(t, "namespace/by-kubectl created\n", out)

	_, err = cluster.Kubectl(t.Context(), "get", "nodes", "--as=stranger")
	require.ErrorContains(t, err, "Forbidden")

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config, err := cluster.ServiceAccountConfig(t.Context(), "default", "default")
	require.NoError(t, err)
	require.NoError(t, WriteKubeconfig(kubeconfig, config))
	out, err = cluster.Kubectl(t.Context(), "auth", "whoami", "--kubeconfig="+kubeconfig, "-o=jsonpath={.status.userInfo.username}")
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:default:default", out)
}

func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	cluster, _ := sharedCluster(t)
	begin := time.Now().Truncate(time.Microsecond)
	client := serviceAccount(t, auditedNamespace, auditedName)

	ctx, cancel := context.WithCancel(t.Context())
	watch, err := client.CoreV1().ConfigMaps(auditedNamespace).Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for range 3 {
		_, err = client.CoreV1().ConfigMaps(auditedNamespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
	}
	_, err = client.CoreV1().Nodes().Patch(t.Context(), "n", types.MergePatchType, []byte("{}"), metav1.PatchOptions{}, "status")
	require.True(t, apierrors.IsForbidden(err), "%v", err)

	want := []string{
		"watch configmaps default/: 200",
		"list configmaps default/: 200",
		"list configmaps default/: 200",
		"list configmaps default/: 200",
		"patch nodes/status n: 403",
	}
	relevant := func() (got []string) {
		requests, err := cluster.Requests()
		require.NoError(t, err)
		for _, r := range requests {
			require.Equal(t, "system:serviceaccount:default:audited", r.User)
			require.False(t, r.Time.Before(begin))
			if r.Verb != "get" { // Those of serviceAccount.
				got = append(got, r.String())
			}
		}
		return got
	}
	patience.Eventually(t, "all requests are recorded", func() bool { return len(relevant()) >= len(want) })
	require.Equal(t, want, relevant(), "the watch is recorded while it is open")

	cancel()
	patience.Eventually(t, "the watch ends", func() bool {
		_, open := <-watch.ResultChan()
		return !open
	})
	require.Equal(t, want, relevant(), "and not again when it ends")

	all, err := cluster.Requests()
	require.NoError(t, err)
	last, err := cluster.RequestsSince(all[len(all)-1].Time)
	require.NoError(t, err)
	require.Equal(t, all[len(all)-1:], last)
}

func TestRequestsNeedAuditUsers(t *testing.T) {
	t.Parallel()
	_, err := newControlPlane(Options{}).Requests()
	require.ErrorContains(t, err, "AuditUsers")
}

func TestGarbageCollectorKnowsCustomResources(t *testing.T) {
	t.Parallel()
	cluster, client := sharedCluster(t)
	_, err := cluster.KubectlInput(t.Context(), strings.NewReader(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.localkube.example}
spec:
  group: localkube.example
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`), "apply", "-f", "-")
	require.NoError(t, err)
	_, err = cluster.Kubectl(t.Context(), "wait", "crd/widgets.localkube.example", "--for=condition=Established")
	require.NoError(t, err)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}
	owner, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), owner, metav1.CreateOptions{})
	require.NoError(t, err)
	widget := fmt.Sprintf(`
apiVersion: localkube.example/v1
kind: Widget
metadata:
  name: owned
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]
`, owner.UID)
	_, err = cluster.KubectlInput(t.Context(), strings.NewReader(widget), "create", "-n", "default", "-f", "-")
	require.NoError(t, err)

	require.NoError(t, client.CoreV1().ConfigMaps("default").Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	patience.Eventually(t, "the widget goes with its owner", func() bool {
		out, err := cluster.Kubectl(t.Context(), "get", "widgets", "-n", "default", "-o=name")
		return err == nil && out == ""
	})
}

func TestNodeLivesAsLongAsItHasHeartbeats(t *testing.T) {
	t.Parallel()
	_, client := sharedCluster(t)
	nodes := client.CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "simulated", Labels: map[string]string{HeartbeatLabel: HeartbeatValue}}}
	_, err := nodes.Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	label := func(value string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, HeartbeatLabel, value)
		_, err := nodes.Patch(t.Context(), "simulated", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	// await returns the Ready condition when it is as wanted.
	await := func(what string, wanted func(corev1.NodeCondition) bool) corev1.NodeCondition {
		var ready corev1.NodeCondition
		patience.Eventually(t, what, func() bool {
			node, err := nodes.Get(t.Context(), "simulated", metav1.GetOptions{})
			require.NoError(t, err)
			i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
			if i < 0 {
				return false
			}
			ready = node.Status.Conditions[i]
			return wanted(ready)
		})
		return ready
	}
	// Heartbeats that were transitions never satisfy this.
	beating := func(c corev1.NodeCondition) bool {
		return c.Status == corev1.ConditionTrue && c.LastHeartbeatTime.After(c.LastTransitionTime.Add(2*time.Second))
	}

	born := await("heartbeats are no transitions", beating)
	patience.Eventually(t, "the node-lifecycle controller takes the taint off", func() bool {
		node, err := nodes.Get(t.Context(), "simulated", metav1.GetOptions{})
		require.NoError(t, err)
		return len(node.Spec.Taints) == 0
	})

	label("null")
	silent := await("Unknown without heartbeats", func(c corev1.NodeCondition) bool {
		return c.Status == corev1.ConditionUnknown
	})
	require.True(t, silent.LastTransitionTime.After(born.LastTransitionTime.Time))

	label(fmt.Sprintf("%q", HeartbeatValue))
	back := await("heartbeats again", beating)
	require.True(t, back.LastTransitionTime.After(silent.LastTransitionTime.Add(-time.Second)))
}
