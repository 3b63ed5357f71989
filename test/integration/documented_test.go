// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// manual runs the commands of the documentation.
type manual struct {
	*cluster
	t *testing.T
	// dir is where the commands are run. It has the manifests.
	dir string
	// names replace the names in capitals.
	names *strings.Replacer
}

func (c *cluster) newManual(t *testing.T, names ...string) *manual {
	t.Helper()
	dir := t.TempDir()
	manifests, err := filepath.Abs(filepath.Join("..", "..", "manifests"))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(manifests, filepath.Join(dir, "manifests")))
	return &manual{cluster: c, t: t, dir: dir, names: strings.NewReplacer(names...)}
}

// commands returns the commands in a section of a page, as far as they contain a text.
func (m *manual) commands(page, heading, text string) (commands []string) {
	m.t.Helper()
	for _, section := range documentedCommands(m.t, filepath.Join("..", "..", "docs", page)) {
		for _, command := range section.commands {
			if section.heading == heading && strings.Contains(command, text) {
				commands = append(commands, command)
			}
		}
	}
	require.NotEmpty(m.t, commands, "%s, %s has no command with %q", page, heading, text)
	return commands
}

// run runs the commands of a section that contain a text, and returns their output.
func (m *manual) run(page, heading, text string) string {
	m.t.Helper()
	var output strings.Builder
	for _, command := range m.commands(page, heading, text) {
		result, err := m.Shell(m.t.Context(), `cd "$DIR"; `+m.names.Replace(command), "DIR="+m.dir)
		require.NoError(m.t, err)
		output.WriteString(result)
	}
	return output.String()
}
