// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node must not be lighter than a real one, or nothing that is measured holds.
func TestNodeIsAsLargeAsReal(t *testing.T) {
	t.Parallel()
	node := newNode(nodeName(70000), groupMeasured, 70000, time.Now())
	require.Len(t, node.Status.Images, 50)
	for _, image := range node.Status.Images {
		require.Len(t, image.Names, 2)
	}
	require.Len(t, node.Status.Conditions, 5)
	require.True(t, isReady(node))
	encoded, err := node.Marshal()
	require.NoError(t, err)
	require.Greater(t, len(encoded), 12_000)
}
