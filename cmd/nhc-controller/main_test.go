// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The process that has nodes repaired serves no pages. With html/template in it, the linker
// would keep every method of everything, and its file would be almost twice as large.
func TestControllerHasNoPages(t *testing.T) {
	t.Parallel()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	const module = "github.com/nhc-controller/nhc-controller/"
	packages := strings.Fields(string(output))
	require.Contains(t, packages, module+"pkg/controller/nodehealthcheck")
	for _, name := range packages {
		require.NotEqual(t, "html/template", name)
		require.False(t, strings.HasPrefix(name, module+"pkg/dashboard") || strings.HasPrefix(name, module+"pkg/kubectl"), name)
	}
}
