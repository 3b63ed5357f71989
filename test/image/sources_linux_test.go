// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What builds from a part of the repository has all the directories that the binaries need. No test
// builds with a container engine, and hack/verify-reproducible.sh runs at night.
func TestImageSources(t *testing.T) {
	t.Parallel()
	const module = "github.com/nhc-controller/nhc-controller/"
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"cmd/nhc-controller", module+"cmd/nhc-dashboard").Output()
	require.NoError(t, err)
	needed := map[string]bool{}
	for name := range strings.FieldsSeq(string(output)) {
		if path, ours := strings.CutPrefix(name, module); ours {
			needed[strings.SplitN(path, "/", 2)[0]] = true
		}
	}
	require.Contains(t, needed, "pkg")
	for file, names := range map[string]string{
		"Dockerfile": `(?m)^COPY %s %s$`, ".dockerignore": `(?m)^!%s$`, "hack/verify-reproducible.sh": `(?m)^ *cp -R .* %s .*"\$1"$`,
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", file))
		require.NoError(t, err)
		for directory := range needed {
			require.Regexp(t, strings.ReplaceAll(names, "%s", directory), string(content))
		}
	}
}
