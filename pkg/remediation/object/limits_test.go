// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestFitting: a list has the items that fit (spec 18.6, 23b.3).
func TestFitting(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{0: 0, 4: 0, 5: 1, 8: 1, 9: 2, 12: 2, 13: 3, 99: 3} {
		require.Equal(t, want, object.Fitting([]string{"a", "b", "c"}, limit), "%d bytes", limit)
	}
}

// TestFirst: a message names some, and counts the rest.
func TestFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a, b", object.First(2, []string{"a", "b"}))
	require.Equal(t, "a, b and 2 more", object.First(2, []string{"a", "b", "c", "d"}))
}
