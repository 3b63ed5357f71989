// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestExplainForAProgram: a reader of a program's output gets no advice that only the user of the
// program can follow.
func TestExplainForAProgram(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	for want, err := range map[string]error{
		"The dashboard may not list nodes: grant its ServiceAccount the permission.": apierrors.NewForbidden(nodes, "", errors.New(`User "nhc-dashboard" cannot list resource "nodes" in API group ""`)),
		"This cluster has no nodes.": apierrors.NewNotFound(nodes, ""),
	} {
		explained := (&Clients{Program: "The dashboard"}).explain(err, "list", "nodes")
		require.EqualError(t, explained, want)
		require.ErrorIs(t, explained, err)
		require.NotContains(t, explained.Error(), "--")
		require.Equal(t, Explain(err, "list", "nodes").Error(), (&Clients{}).explain(err, "list", "nodes").Error(), "the words for users")
	}
}
