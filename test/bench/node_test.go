// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
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

func TestPatches(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	node := newNode("a", groupMeasured, 1, now.Add(-time.Hour))
	node.Status.Images = nil
	apply := func(patch []byte, err error) *corev1.Node {
		t.Helper()
		require.NoError(t, err)
		before, err := json.Marshal(node)
		require.NoError(t, err)
		after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Node{})
		require.NoError(t, err)
		var patched corev1.Node
		require.NoError(t, json.Unmarshal(after, &patched))
		return &patched
	}
	failed := apply(readyPatch(corev1.ConditionFalse, now, now))
	require.False(t, isReady(failed))
	require.Len(t, failed.Status.Conditions, 5)
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	var sum atomic.Int64
	require.NoError(t, sideBySide(t.Context(), 100, 7, func(_ context.Context, i int) error {
		sum.Add(int64(i))
		return nil
	}))
	require.EqualValues(t, 4950, sum.Load())
	broken := errors.New("broken")
	var calls atomic.Int64
	require.ErrorIs(t, sideBySide(t.Context(), 100, 1, func(_ context.Context, i int) error {
		calls.Add(1)
		if i == 3 {
			return broken
		}
		return nil
	}), broken)
	require.EqualValues(t, 4, calls.Load())
}
