// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package golden compares output with files.
package golden

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// Check compares the output at several widths, and in colour, with files in testdata.
func Check(t *testing.T, name string, show func(out io.Writer, width int, colour bool)) {
	t.Helper()
	for file, options := range map[string]struct {
		width  int
		colour bool
	}{"-80": {width: 80}, "-140": {width: 140}, "-colour": {width: 140, colour: true}} {
		var text strings.Builder
		show(&text, options.width, options.colour)
		path := filepath.Join("testdata", name+file+".txt")
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err, "go test -update writes it")
		require.Equal(t, string(want), text.String(), path)
	}
}
