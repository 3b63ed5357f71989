// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs tests the documentation against the source.
package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// rulesOf is the number of rules in a section of the specification.
var rulesOf = map[int]int{
	4: 8, 5: 4, 6: 9, 7: 8, 8: 6, 9: 10, 10: 5, 11: 8, 12: 5, 13: 8, 14: 9, 15: 3, 16: 6, 17: 6, 18: 6, 19: 3, 20: 4, 21: 3,
}

// complete are the sections each rule of which has a test.
var complete = []int{5, 10, 11, 12, 13, 14, 15, 16, 17, 18}

var (
	row    = regexp.MustCompile(`^\| (\d+)\.(\d+) \| (.+) \| (.+) \|$`)
	quoted = regexp.MustCompile("`([^`]+)`")
)

// beyond is the heading of what is in no rule: its table has subjects.
const beyond = "## Beyond the specification"

var subject = regexp.MustCompile(`^\| ([^|]+) \| (.+) \|$`)

// rule is a row of the tables in docs/testing.md.
type rule struct {
	section, number int
	tests           []string
}

func (r rule) String() string { return fmt.Sprintf("%d.%d", r.section, r.number) }

func rules(t *testing.T) []rule {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	require.NoError(t, err)
	var all []rule
	for line := range strings.Lines(string(content)) {
		cells := row.FindStringSubmatch(strings.TrimSpace(line))
		if cells == nil {
			continue
		}
		section, err := strconv.Atoi(cells[1])
		require.NoError(t, err)
		number, err := strconv.Atoi(cells[2])
		require.NoError(t, err)
		r := rule{section: section, number: number}
		for _, name := range quoted.FindAllStringSubmatch(cells[4], -1) {
			r.tests = append(r.tests, name[1])
		}
		all = append(all, r)
	}
	require.NotEmpty(t, all)
	return all
}

// subjects returns the tests of what is in no rule, by what they are about.
func subjects(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(content), beyond)
	require.True(t, found)
	all := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := subject.FindStringSubmatch(strings.TrimSpace(line))
		if cells == nil || cells[1] == "subject" || strings.HasPrefix(cells[1], "-") {
			continue
		}
		require.NotContains(t, all, cells[1], "it is there twice")
		for _, name := range quoted.FindAllStringSubmatch(cells[2], -1) {
			all[cells[1]] = append(all[cells[1]], name[1])
		}
		require.NotEmpty(t, all[cells[1]], "%s names no test", cells[1])
	}
	require.NotEmpty(t, all)
	return all
}

// TestRulesHaveTests: every rule of the complete sections is in the tables, once, and
// names a test.
func TestRulesHaveTests(t *testing.T) {
	t.Parallel()
	named := map[string]int{}
	for _, r := range rules(t) {
		named[r.String()]++
		require.Equal(t, 1, named[r.String()], "%s is there twice", r)
		require.NotEmpty(t, r.tests, "%s names no test", r)
		require.True(t, 1 <= r.number && r.number <= rulesOf[r.section], "there is no rule %s", r)
	}
	for _, section := range complete {
		for number := range rulesOf[section] {
			r := rule{section: section, number: number + 1}
			require.Contains(t, named, r.String(), "docs/testing.md names no test of this rule")
		}
	}
}

// TestNamedTestsExist: what the tables name is in the source.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	literals := testLiterals(t)
	check := func(about string, tests []string) {
		for _, named := range tests {
			name, subtest, _ := strings.Cut(named, "/")
			inside, exists := literals[name]
			require.True(t, exists, "%s: there is no test %s", about, name)
			require.True(t, has(inside, subtest), "%s: %s has no subtest %q", about, name, subtest)
		}
	}
	for _, r := range rules(t) {
		check(r.String(), r.tests)
	}
	for about, tests := range subjects(t) {
		check(about, tests)
	}
}

// has tells whether a test function with these strings in it has a subtest.
func has(literals []string, subtest string) bool {
	prefix, several := strings.CutSuffix(subtest, "*")
	return subtest == "" || slices.ContainsFunc(literals, func(literal string) bool {
		return literal == subtest || (several && strings.HasPrefix(literal, prefix))
	})
}

func TestHas(t *testing.T) {
	t.Parallel()
	literals := []string{"13.8 once", "14.5-"}
	for subtest, want := range map[string]bool{
		"": true, "13.8 once": true, "13.8 *": true, "14.5-*": true, "13.8": false, "13.8 never": false, "13.9 *": false,
	} {
		require.Equal(t, want, has(literals, subtest), "%q", subtest)
	}
}

// testLiterals returns the strings in each test function of the repository, by its
// name. Functions that share a name share the entry.
func testLiterals(t *testing.T) map[string][]string {
	t.Helper()
	literals := map[string][]string{}
	for _, dir := range []string{"cmd", "hack", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, declaration := range file.Decls {
				function, ok := declaration.(*ast.FuncDecl)
				if !ok || function.Recv != nil || (!strings.HasPrefix(function.Name.Name, "Test") && !strings.HasPrefix(function.Name.Name, "Fuzz")) {
					continue
				}
				literals[function.Name.Name] = append(literals[function.Name.Name], stringsIn(function)...)
			}
			return nil
		})
		require.NoError(t, err)
	}
	return literals
}

func stringsIn(function *ast.FuncDecl) []string {
	var found []string
	ast.Inspect(function, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if value, err := strconv.Unquote(literal.Value); err == nil {
				found = append(found, value)
			}
		}
		return true
	})
	return found
}
