// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWorkflowsRunEverything: the workflow CI runs each target of .ci/run once, and the workflow Nightly the long form
// of each failure test.
func TestWorkflowsRunEverything(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		require.NoError(t, err)
		return string(content)
	}
	whole := regexp.MustCompile(`targets=\(([a-z -]+)\)`).FindStringSubmatch(read(".ci/run"))
	require.NotNil(t, whole)
	var parts []string
	for _, part := range regexp.MustCompile(`(?m)^        - ([a-z -]+)$`).FindAllStringSubmatch(read(".github/workflows/ci.yaml"), -1) {
		parts = append(parts, strings.Fields(part[1])...)
	}
	require.ElementsMatch(t, strings.Fields(whole[1]), parts)

	long := regexp.MustCompile(`addprefix nightly-faults-,([A-Za-z ]+)\)`).FindStringSubmatch(read("Makefile"))
	require.NotNil(t, long)
	files, err := filepath.Glob(filepath.Join(root, "test", "faults", "*_test.go"))
	require.NoError(t, err)
	var tests []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, test := range regexp.MustCompile(`(?m)^func Test([A-Z]\w+)\(t `).FindAllStringSubmatch(string(content), -1) {
			tests = append(tests, test[1])
		}
	}
	require.ElementsMatch(t, tests, strings.Fields(long[1]))
}
