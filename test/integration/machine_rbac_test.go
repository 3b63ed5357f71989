// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// foreignLeader is the lease of OpenShift's own controller of MachineHealthChecks.
const foreignLeader = "cluster-api-provider-healthcheck-leader"

// machinePermissions are what spec M20.2 lists, with the verbs of each resource.
var machinePermissions = map[string]string{
	"machinehealthchecks.machine.openshift.io":        "get list watch",
	"machinehealthchecks/status.machine.openshift.io": "update",
	"machines.machine.openshift.io":                   "get list watch delete patch",
	"machines.cluster.x-k8s.io":                       "get list watch delete",
	"clusters.cluster.x-k8s.io":                       "get list watch",
	"machinehealthchecks.cluster.x-k8s.io":            "get list watch",
	"featuregates.config.openshift.io":                "get list watch",
	"leases.coordination.k8s.io/" + foreignLeader:     "list watch",
	"events.events.k8s.io":                            "create patch",
}

// TestMachinePermissions: the overlay grants what spec M20.2 lists, and no more, and the API
// server judges by it.
func TestMachinePermissions(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.createNamespaces(t, machineNamespace)
	before := c.granted(t)
	c.applyOverlay(t, ownOverlay)
	granted := map[string][]string{}
	for _, p := range c.granted(t) {
		if slices.Contains(before, p) {
			continue
		}
		require.Empty(t, p.namespace, "%s", p)
		what := p.resource + "." + p.group
		if p.object != "" {
			what += "/" + p.object
		}
		granted[what] = append(granted[what], p.verb)
		patience.Eventually(t, p.String(), func() bool { return c.permitted(t, p) })
	}
	want := map[string][]string{}
	for what, verbs := range machinePermissions {
		want[what] = strings.Fields(verbs)
	}
	require.Equal(t, want, granted)
	t.Run("the lease of one name", func(t *testing.T) { testForeignLeader(t, c) })
	t.Run("users", func(t *testing.T) { testMachineUsers(t, c) })
}

// testForeignLeader: the controller finds that lease in whatever namespace it is, and sees no
// other one.
func testForeignLeader(t *testing.T, c *cluster) {
	config, err := c.ServiceAccountConfig(t.Context(), deploy.Namespace, deploy.ServiceAccount)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	for _, name := range []string{foreignLeader, "other"} {
		_, err = c.kube.CoordinationV1().Leases(machineNamespace).Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	everywhere := client.CoordinationV1().Leases(metav1.NamespaceAll)
	one := metav1.ListOptions{FieldSelector: "metadata.name=" + foreignLeader}
	list, err := everywhere.List(t.Context(), one)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	one.ResourceVersion = list.ResourceVersion
	changes, err := everywhere.Watch(t.Context(), one)
	require.NoError(t, err)
	defer changes.Stop()
	require.NoError(t, c.kube.CoordinationV1().Leases(machineNamespace).Delete(t.Context(), foreignLeader, metav1.DeleteOptions{}))
	event := <-changes.ResultChan()
	lease, isLease := event.Object.(*coordinationv1.Lease)
	require.True(t, isLease, "%v", event)
	require.Equal(t, foreignLeader, lease.Name)
	for _, selector := range []string{"", "metadata.name=other"} {
		_, err = everywhere.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		require.True(t, apierrors.IsForbidden(err), "%q: %v", selector, err)
	}
}

// testMachineUsers: the roles for NodeHealthChecks permit the same on MachineHealthChecks.
func testMachineUsers(t *testing.T, c *cluster) {
	for user, role := range map[string]string{"reader": "view", "editor": "nhc-edit", "stranger": ""} {
		if role != "" {
			_, err := c.kube.RbacV1().RoleBindings(machineNamespace).Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: user},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
	may := func(user, verb, subresource string) bool {
		resource := strings.TrimSuffix(machineHealthCheck.resource.Resource+"/"+subresource, "/")
		return c.permittedTo(t, permission{namespace: machineNamespace, verb: verb, group: machineHealthCheck.resource.Group, resource: resource}, user)
	}
	for user, verbs := range map[string][]string{
		"reader": {"get", "list", "watch"}, "editor": {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}, "stranger": nil,
	} {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
			patience.Eventually(t, fmt.Sprintf("%s may %s, or may not", user, verb), func() bool { return may(user, verb, "") == slices.Contains(verbs, verb) })
		}
		require.Equal(t, user == "reader", may(user, "get", "status"), user)
		require.False(t, may(user, "update", "status"), user)
	}
}

// TestMachineHealthCheckIsOptional: nothing of it is in the manifest that everybody applies, and
// all of it moves to another namespace.
func TestMachineHealthCheckIsOptional(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	manifest, err := os.ReadFile(installManifest)
	require.NoError(t, err)
	for _, word := range []string{"machinehealthcheck", "--controllers", machinePolicy} {
		require.NotContains(t, string(manifest), word)
	}
	for overlay, crd := range map[string]bool{ownOverlay: true, openShiftOverlay: false} {
		rendered, err := c.Kubectl(t.Context(), "kustomize", filepath.Join("..", "..", "manifests", "overlays", overlay))
		require.NoError(t, err)
		require.Equal(t, crd, strings.Contains(rendered, "name: machinehealthchecks.machine.openshift.io"), overlay)
		require.Contains(t, rendered, "- --controllers=*,machinehealthcheck\n")
		require.Equal(t, !crd, strings.Contains(rendered, "name: nhc-controller-openshift"), overlay)
	}

	dir := t.TempDir()
	require.NoError(t, deploy.WriteKustomization(dir, movedNamespace, "machine-health-check", "namespace"))
	rendered, err := c.Kubectl(t.Context(), "kustomize", dir)
	require.NoError(t, err)
	require.NotContains(t, rendered, deploy.Namespace)
	require.Equal(t, 2, strings.Count(rendered, "request.userInfo.username == 'system:serviceaccount:"+movedNamespace+":nhc-controller'"), "in the policies for nodes and machines")
}
