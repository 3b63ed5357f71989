// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
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
