// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompareNames(t *testing.T) {
	t.Parallel()
	want := []string{"", "7", "a", "a-2", "a-10", "a-10b", "a-b", "n1", "n2", "n10", "n10-1", "n10-3", "n100", "n99999999999999999999", "n100000000000000000000"}
	names := slices.Clone(want)
	slices.Reverse(names)
	slices.SortStableFunc(names, compareNames)
	require.Equal(t, want, names)
	require.Zero(t, compareNames("n01", "n1"))
}
