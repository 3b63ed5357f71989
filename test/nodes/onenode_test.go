// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOneNode: where there is only one node, both replicas run on it, and the spread holds up nothing.
func TestOneNode(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{Nodes: []string{"a"}}, false)
	require.Len(t, s.replicas(), 2)
	for _, pod := range s.replicas() {
		require.True(t, podIsReady(&pod))
	}
	s.kubectl("--namespace", "nhc-system", "rollout", "restart", "deployment/nhc-controller")
	s.kubectl("--namespace", "nhc-system", "rollout", "status", "deployment/nhc-controller", "--timeout=120s")
	s.settle()
}
