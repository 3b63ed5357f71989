// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPictureOfPackages: each package of pkg/, except helpers of tests, stands once in the picture of the design.
func TestPictureOfPackages(t *testing.T) {
	t.Parallel()
	design, err := os.ReadFile("../../docs/design.md")
	require.NoError(t, err)
	_, packages, found := strings.Cut(string(design), "## Packages\n")
	require.True(t, found)
	shown := map[string]int{}
	for word := range strings.FieldsSeq(strings.Split(packages, "```")[1]) {
		shown[word]++
	}
	require.NoError(t, filepath.WalkDir("../../pkg", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, "../../pkg/")
		if name == "generated" {
			require.Equal(t, 1, shown[name], name)
			return fs.SkipDir
		}
		sources, err := filepath.Glob(filepath.Join(path, "*.go"))
		if len(sources) > 0 && !strings.HasSuffix(name, "test") {
			require.Equal(t, 1, shown[name], name)
		}
		return err
	}))
}
