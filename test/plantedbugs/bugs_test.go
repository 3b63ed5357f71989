// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBugs: every bug can be planted into the product as it is now, so that the list does not
// rot between two runs of the command.
func TestBugs(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, bug := range allBugs() {
		t.Run(bug.name, func(t *testing.T) {
			require.False(t, names[bug.name], "names are unique")
			names[bug.name] = true
			require.NotEmpty(t, bug.rule)
			require.NotEqual(t, bug.old, bug.new)
			source, err := bug.source("../..")
			require.NoError(t, err)
			_, err = parser.ParseFile(token.NewFileSet(), bug.file, source, parser.SkipObjectResolution)
			require.NoError(t, err)
		})
	}
}
