// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

var installManifest = filepath.Join("..", "..", "manifests", "install.yaml")

// TestInstallAgain applies the manifest to a cluster that has it, in every way
// there is. Not for a moment does the controller lose the permissions that the
// remediators gave it (spec P10, 22.2).
func TestInstallAgain(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t) // Elsewhere other tests grant permissions.
	roles := c.kube.RbacV1().ClusterRoles()
	const name = "nhc-controller-aggregation"
	aggregated, err := roles.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, aggregated.Rules, "the demo remediator is installed")

	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	changes, err := roles.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: aggregated.ResourceVersion,
	})
	require.NoError(t, err)
	defer changes.Stop()

	for _, args := range [][]string{
		{"apply", "-f", installManifest},
		{"apply", "--server-side", "--force-conflicts", "-f", installManifest},
		{"apply", "--server-side", "-f", installManifest},
		{"apply", "-f", installManifest},
	} {
		_, err := c.Kubectl(t.Context(), args...)
		require.NoError(t, err)
	}

	// The watch has seen everything when it sees this.
	_, err = c.Kubectl(t.Context(), "label", "--overwrite", "clusterrole", name, "test.nhc-controller.io/last=yes")
	require.NoError(t, err)
	for {
		event, open := <-changes.ResultChan()
		require.True(t, open)
		role, _ := event.Object.(*rbacv1.ClusterRole)
		require.NotNil(t, role, "%v", event)
		require.Equal(t, aggregated.Rules, role.Rules)
		if role.Labels["test.nhc-controller.io/last"] != "" {
			break
		}
	}
}
