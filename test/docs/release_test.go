// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRemoteReferences: the directories that users are told to fetch are those of the
// version that the manifests install.
func TestRemoteReferences(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	release := regexp.MustCompile(`(?m)^RELEASE := (\S+)$`).FindSubmatch(makefile)
	require.NotNil(t, release)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	references := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, reference := range regexp.MustCompile(`//(manifests/[a-z/-]+)\?ref=([\w.-]+)`).FindAllStringSubmatch(string(content), -1) {
			references++
			require.DirExists(t, filepath.Join(root, reference[1]), page)
			require.Equal(t, string(release[1]), reference[2], page)
		}
	}
	require.NotZero(t, references)
}
