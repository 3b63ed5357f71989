// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpeeds: the lists by which the Makefile chooses tests name tests, and none is in both.
func TestSpeeds(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	tests := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range declared.FindAllSubmatch(content, -1) {
			tests[string(match[1])] = true
		}
	}
	for _, list := range []string{"core.txt", "seconds.txt"} {
		content, err := os.ReadFile(filepath.Join("testdata", list))
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			if name := strings.TrimSpace(line); !strings.HasPrefix(name, "#") {
				require.True(t, tests[name], "%s names %s, which is no test or in another list", list, name)
				delete(tests, name)
			}
		}
	}
}
