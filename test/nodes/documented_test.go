// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// documented runs a command of a page of the documentation, in the directory of the project, and returns its output.
func (s *story) documented(page, command string) string {
	s.t.Helper()
	output, err := s.documentedError(page, command)
	require.NoError(s.t, err)
	return output
}

func (s *story) documentedError(page, command string) (string, error) {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(projectDir(s.t), "docs", page+".md"))
	require.NoError(s.t, err)
	require.Contains(s.t, string(content), command, "the page has another command")
	return s.shell(command)
}

// shell runs a command in the directory of the project. Helm is that of NHC_HELM.
func (s *story) shell(command string, env ...string) (string, error) {
	s.t.Helper()
	env = append(env, "DIR="+projectDir(s.t), "HELM="+os.Getenv("NHC_HELM"))
	return s.Shell(s.t.Context(), `helm() { "$HELM" "$@"; }; cd "$DIR"; `+command, env...)
}

func projectDir(t *testing.T) string {
	t.Helper()
	root, err := deploy.ModuleRoot()
	require.NoError(t, err)
	return root
}

var (
	// needPods are the commands that TestDocumentedCommands of test/integration leaves out, as they need running pods. Those
	// of `kubectl top` also need a metrics server, and are run nowhere.
	needPods = regexp.MustCompile(`kubectl( -n \S+)? (logs|rollout) | get endpointslices `)
	inline   = regexp.MustCompile("`(kubectl [^`<…]+ [^`<…]+)`")
)

// commandsWithPods returns those commands of all pages, each once.
func commandsWithPods(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(projectDir(t), "docs", "*.md"))
	require.NoError(t, err)
	runbooks, err := filepath.Glob(filepath.Join(projectDir(t), "docs", "runbooks", "*.md"))
	require.NoError(t, err)
	var commands []string
	seen := map[string]bool{}
	for _, page := range append(pages, runbooks...) {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			found := inline.FindAllStringSubmatch(line, -1)
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				found = [][]string{{"", command}}
			}
			for _, match := range found {
				if command := match[1]; needPods.MatchString(command) && !seen[command] {
					seen[command] = true
					commands = append(commands, command)
				}
			}
		}
	}
	return commands
}
