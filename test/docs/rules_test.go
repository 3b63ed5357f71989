// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs tests the documentation against the source.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// complete are the sections whose rules all have a test.
var complete = []string{"5", "10", "11", "12", "13", "14", "15", "16", "17", "18", "22", "23b", "23d"}

// tabled is a section without numbered rules, which has one row.
const tabled = "23"

var (
	row    = regexp.MustCompile(`^\| (P\d+|[MB]?\d+[a-z]?(?:\.\d+)?) \| (.+) \| (.+) \|$`)
	quoted = regexp.MustCompile("`([^`]+)`( \\((?:nightly|monitoring|chart|cluster-api|browser)\\))?")
)

// Marks of tests that `make test` does not run.
const (
	nightly    = " (nightly)"
	monitoring = " (monitoring)"
	chart      = " (chart)"
	clusterAPI = " (cluster-api)"
	browser    = " (browser)"
)

// beyond is the heading of the table of subjects that no rule covers.
const beyond = "## Beyond the rules"

var subject = regexp.MustCompile(`^\| ([^|]+) \| (.+) \|$`)

// rule is a row of the tables in docs/testing.md.
type rule struct {
	number string
	tests  []named
}

// named is a test in docs/testing.md.
type named struct {
	test string
	mark string // Empty if `make test` runs it.
}

func namedIn(cell string) []named {
	var all []named
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, named{match[1], match[2]})
	}
	return all
}

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
		all = append(all, rule{cells[1], namedIn(cells[3])})
	}
	require.NotEmpty(t, all)
	return all
}

// subjects returns the tests of what no rule covers, by their subject.
func subjects(t *testing.T) map[string][]named {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(content), beyond)
	require.True(t, found)
	all := map[string][]named{}
	for line := range strings.Lines(section) {
		cells := subject.FindStringSubmatch(strings.TrimSpace(line))
		if cells == nil || cells[1] == "subject" || strings.HasPrefix(cells[1], "-") {
			continue
		}
		require.NotContains(t, all, cells[1], "it is there twice")
		all[cells[1]] = namedIn(cells[2])
		require.NotEmpty(t, all[cells[1]], "%s names no test", cells[1])
	}
	require.NotEmpty(t, all)
	return all
}

// TestRulesHaveTests: the tables have every rule of the complete sections, once, with a
// test, and no rule that the reference does not have.
func TestRulesHaveTests(t *testing.T) {
	t.Parallel()
	reference := numbersInReference(t)
	rows := map[string]int{}
	for _, r := range rules(t) {
		rows[r.number]++
		require.Equal(t, 1, rows[r.number], "%s is there twice", r.number)
		require.NotEmpty(t, r.tests, "%s names no test", r.number)
		require.Contains(t, reference, r.number, "docs/testing.md names a rule that docs/reference does not have")
	}
	for number := range reference {
		section, _, isRule := strings.Cut(number, ".")
		if isRule && slices.Contains(complete, section) || strings.HasPrefix(number, "P") || number == tabled {
			require.Contains(t, rows, number, "docs/testing.md names no test of this rule")
		}
	}
}

// TestNamedTestsExist: the tests that the tables name are in the source, and those that
// `make test` does not run are marked.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	literals := testLiterals(t, "cmd", "hack", "pkg", "test")
	elsewhere := map[string]map[string][]string{
		monitoring: testLiterals(t, "test/monitoring"), chart: testLiterals(t, "test/chart"), clusterAPI: testLiterals(t, "test/clusterapi"),
		browser: testLiterals(t, "test/dashboard"),
	}
	skips, err := os.ReadFile(filepath.Join(root, "hack", "skips.txt"))
	require.NoError(t, err)
	check := func(about string, tests []named) {
		for _, n := range tests {
			name, subtest, _ := strings.Cut(n.test, "/")
			inside, exists := literals[name]
			require.True(t, exists, "%s: there is no test %s", about, name)
			require.True(t, has(inside, subtest), "%s: %s has no subtest %q", about, name, subtest)
			mark := ""
			if strings.Contains(string(skips), " "+name+"\n") {
				mark = nightly
			}
			for separate, tests := range elsewhere {
				if _, isThere := tests[name]; isThere {
					mark = separate
				}
			}
			require.Equal(t, mark, n.mark, "%s: the mark of %s", about, name)
		}
	}
	for _, r := range rules(t) {
		check(r.number, r.tests)
	}
	for about, tests := range subjects(t) {
		check(about, tests)
	}
}

// has reports whether a test function with these strings in it has a subtest.
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

// testLiterals returns the strings in each test function below the directories, by its
// name. Functions that share a name share the entry.
func testLiterals(t *testing.T, dirs ...string) map[string][]string {
	t.Helper()
	literals := map[string][]string{}
	for _, dir := range dirs {
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
		if basic, ok := node.(*ast.BasicLit); ok && basic.Kind == token.STRING {
			found = append(found, literal(basic))
		}
		return true
	})
	return found
}
