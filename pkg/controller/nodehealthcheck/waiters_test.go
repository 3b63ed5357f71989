// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWaiters(t *testing.T) {
	t.Parallel()
	var w waiters
	require.Empty(t, w.all())
	w.set("one", true)
	w.set("two", true)
	w.set("three", false)
	require.ElementsMatch(t, []string{"one", "two"}, w.all(), "21.1: those that wait")
	w.set("one", false)
	require.Equal(t, []string{"two"}, w.all(), "P4: it does not wait any more")
}
