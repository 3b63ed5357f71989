// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")
	heading   = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	link      = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// pages returns the Markdown files of the project by their path from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	read := func(path string) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		found[name] = string(content)
	}
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	for _, path := range top {
		read(path)
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
			read(path)
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(found), 20)
	return found
}

// anchors returns what a link can refer to in a page: its headings, as GitHub names them.
func anchors(page string) map[string]bool {
	found, times := map[string]bool{}, map[string]int{}
	for _, match := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		text := strings.ToLower(link.ReplaceAllString(match[1], "$1"))
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(text, ""), " ", "-")
		if times[slug]++; times[slug] > 1 {
			slug += "-" + strconv.Itoa(times[slug]-1)
		}
		found[slug] = true
	}
	return found
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	page := "# My node is NotReady, and `Disabled`\n## [Where](a.md)\n## Where\n```console\n# not a heading\n```\n"
	require.Equal(t, map[string]bool{"my-node-is-notready-and-disabled": true, "where": true, "where-1": true}, anchors(page))
}

// TestLinks: the files and headings that the pages link to exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	all, links := pages(t), 0
	for name, page := range all {
		for _, match := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
			if strings.Contains(match[2], "://") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(match[2], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			_, err := os.Stat(filepath.Join(root, target))
			require.NoError(t, err, "%s links to %s", name, match[2])
			if anchor != "" {
				require.Contains(t, all, target, "%s links to %s", name, match[2])
				require.Contains(t, anchors(all[target]), anchor, "%s links to %s", name, match[2])
			}
		}
	}
	require.Greater(t, links, 100)
}

// TestCodeBlocks: every block of code ends, and what claims to be YAML is YAML.
func TestCodeBlocks(t *testing.T) {
	t.Parallel()
	blocks := 0
	for name, page := range pages(t) {
		require.Zero(t, strings.Count(page, "```")%2, "%s: a block of code does not end", name)
		for _, match := range codeBlock.FindAllStringSubmatch(page, -1) {
			if match[1] != "yaml" {
				continue
			}
			blocks++
			var parsed any
			require.NoError(t, yaml.UnmarshalStrict([]byte(match[2]), &parsed), "%s:\n%s", name, match[2])
		}
	}
	require.Greater(t, blocks, 15)
}
