// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestVersionIsTruthful: the test itself is built without linker flags.
func TestVersionIsTruthful(t *testing.T) {
	t.Parallel()
	require.NotContains(t, NewCommand().Version, "Format")
	registry := prometheus.NewRegistry()
	require.NoError(t, registerVersion(registry))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.NotContains(t, families[0].String(), "Format")
	require.ErrorContains(t, registerVersion(registry), "registering metrics")
}
