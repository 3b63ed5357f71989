// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuickstart walks through the section of docs/quickstart.md about one machine: each command in its order, except for
// those that begin the demo and watch for ever.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	blocks := consoleBlocks(t, "quickstart", "## On one machine, without a BMC")
	require.Len(t, blocks, 6)
	node := s.nodeOfDatabase()
	before := s.podOfLeader()
	s.check, s.later = "quickstart", 55*time.Second
	for i, block := range blocks {
		switch i {
		case 0:
			require.Equal(t, "KEEP=1 make demo-nodes", block)
			continue
		case 3:
			script, watch, _ := strings.Cut(block, "\n")
			require.Contains(t, watch, "--watch")
			block = script
			s.fail(node, "a pulled cable", func(*Node) error { return nil })
		case 4:
			s.remediated(node, "quickstart", "Ready=Unknown", nil)
		}
		output, err := s.shell(block, "NETWORK="+s.Network(), "NODE="+node.Name)
		require.NoError(t, err)
		t.Logf("%s\n%s", block, output)
		switch i {
		case 1:
			require.Equal(t, before.UID, s.podOfLeader().UID, "nothing has changed")
		case 4:
			require.Contains(t, output, node.Name+`"`)
		}
	}
	require.NotContains(t, s.kubectl("get", "nhc"), "quickstart")
}

// consoleBlocks returns the commands of a section of a page, by block.
func consoleBlocks(t *testing.T, page, heading string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(projectDir(t), "docs", page+".md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(content), heading+"\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, part := range strings.Split(section, "```console\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(block), "$ "), "\n$ ", "\n"))
	}
	return blocks
}
