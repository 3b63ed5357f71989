// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/command"
)

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	makeTarget = regexp.MustCompile(`(?:^|[$&;]) *make ((?:[a-z][a-z-]*(?: |$))+)`)
	ofPlugin   = regexp.MustCompile(`\bkubectl nhc ([a-z][^|#;>]*)`)
	inTree     = regexp.MustCompile(`(?:-f|-k|go (?:test|run)) \.?/?((?:manifests|pkg|test|hack|cmd)/[\w./-]*)`)
	ruleOfMake = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	goTest     = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z]\w+)`)
	testFunc   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// ofUpstream are the targets of the upstream operator that Migration names.
var ofUpstream = []string{"deploy", "undeploy"}

// TestPrintedCommandsExist: the targets of make, the commands of the plugin, the files and the tests that the pages name exist.
func TestPrintedCommandsExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := slices.Clone(ofUpstream)
	for _, rule := range ruleOfMake.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, rule[1])
	}
	tests := map[string]bool{}
	forEachSource(t, func(path, source string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, match := range testFunc.FindAllStringSubmatch(source, -1) {
				tests[match[1]] = true
			}
		}
	}, ".")
	checked := 0
	for name, page := range pages(t) {
		for _, line := range printed(page) {
			for _, match := range makeTarget.FindAllStringSubmatch(line, -1) {
				require.Subset(t, targets, strings.Fields(match[1]), "%s: %s", name, line)
				checked++
			}
			for _, match := range ofPlugin.FindAllStringSubmatch(line, -1) {
				requireOfPlugin(t, strings.Fields(match[1]), name+": "+line)
			}
			for _, match := range inTree.FindAllStringSubmatch(line, -1) {
				_, err := os.Stat(filepath.Join(root, match[1]))
				require.NoError(t, err, "%s: %s", name, line)
			}
			for _, match := range goTest.FindAllStringSubmatch(line, -1) {
				require.True(t, tests[match[1]], "%s: no test %s", name, match[1])
			}
		}
	}
	require.Greater(t, checked, 20)
}

// requireOfPlugin requires that the plugin has a command, and its flags.
func requireOfPlugin(t *testing.T, args []string, where string) {
	t.Helper()
	known, rest, err := command.New(command.Environment{}).Find(args)
	require.NoError(t, err, where)
	require.True(t, known.HasParent() || args[0] == "__complete", where)
	for _, arg := range rest {
		flag, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case strings.HasPrefix(arg, "--"):
			require.True(t, flag == "help" || known.Flag(flag) != nil, where)
		case strings.HasPrefix(arg, "-") && flag != "":
			require.NotNil(t, known.Flags().ShorthandLookup(flag[:1]), where)
		}
	}
}

// printed returns the lines of code in a page, in blocks and in sentences.
func printed(page string) (lines []string) {
	for _, match := range codeBlock.FindAllStringSubmatch(page, -1) {
		lines = append(lines, strings.Split(match[2], "\n")...)
	}
	for _, match := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		lines = append(lines, match[1])
	}
	return lines
}
