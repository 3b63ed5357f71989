// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reference returns the pages with the rules. The rules on MachineHealthChecks begin with M, those on RemediationBudgets with B.
func reference(t *testing.T) string {
	t.Helper()
	text := ""
	for _, page := range []string{"nodehealthcheck.md", "machinehealthcheck.md", "remediationbudget.md"} {
		content, err := os.ReadFile(filepath.Join(root, "docs", "reference", page))
		require.NoError(t, err)
		text += string(content)
	}
	return text
}

var (
	ruleLine    = regexp.MustCompile(`(?m)^(?:- |## )(P\d+|[MB]?\d+[a-z]?(?:\.\d+)?) `)
	citation    = regexp.MustCompile(`\bspec ((?:P\d+|[MB]?\d+[a-z]?(?:\.\d+)?)(?:(?:, | to | and )(?:P\d+|[MB]?\d+[a-z]?\.\d+))*)`)
	citedNumber = regexp.MustCompile(`P\d+|[MB]?\d+[a-z]?(?:\.\d+)?`)
	nextLine    = regexp.MustCompile(`\n\s*// ?`)

	metricName = regexp.MustCompile(`^(?:nhc|nodehealthcheck|mapi)_[a-z_]+$`)
	anyMetric  = regexp.MustCompile("`((?:nhc|nodehealthcheck|mapi)_[a-z_]+)`")
	flagOf     = regexp.MustCompile(`flags\.\w+Var\(&[\w.]+, "([a-z0-9-]+)"`)
	// shownName are the names of constants that events and status show.
	shownName = regexp.MustCompile(`^(?:[rR]eason|Condition|Decided|Decision|Phase|Outcome|Step)[A-Z]`)
	shownText = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
)

// numbersInReference returns the numbers of rules, principles and sections.
func numbersInReference(t *testing.T) map[string]bool {
	t.Helper()
	numbers := map[string]bool{}
	for _, match := range ruleLine.FindAllStringSubmatch(reference(t), -1) {
		require.False(t, numbers[match[1]], "%s is there twice", match[1])
		numbers[match[1]] = true
	}
	require.NotEmpty(t, numbers)
	return numbers
}

// citations returns the numbers that a source cites, also across the lines of a comment.
func citations(source string) []string {
	var numbers []string
	for _, match := range citation.FindAllStringSubmatch(nextLine.ReplaceAllString(source, " "), -1) {
		numbers = append(numbers, citedNumber.FindAllString(match[1], -1)...)
	}
	return numbers
}

// forEachSource calls do for the Go files below the directories that are not generated.
func forEachSource(t *testing.T, do func(path, source string), dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "generated") {
				return err
			}
			source, err := os.ReadFile(path)
			do(path, string(source))
			return err
		})
		require.NoError(t, err)
	}
}

// TestCitedRulesExist: the reference has every rule that a comment cites.
func TestCitedRulesExist(t *testing.T) {
	t.Parallel()
	numbers, cited := numbersInReference(t), 0
	forEachSource(t, func(path, source string) {
		for _, number := range citations(source) {
			cited++
			require.Contains(t, numbers, number, "%s cites spec %s, which docs/reference does not have", path, number)
		}
	}, "cmd", "hack", "pkg", "test")
	require.Greater(t, cited, 100)
}

func TestCitations(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"9.2", "9.4", "P5"}, citations("// so (spec 9.2 to\n\t// 9.4, P5)."))
	require.Equal(t, []string{"23b.1"}, citations("(spec 23b.1, and so on)"))
	require.Equal(t, []string{"12"}, citations("spec 12)"))
	require.Equal(t, []string{"M7.2", "12.2"}, citations("spec M7.2 and 12.2)"))
}

// TestReferenceIsComplete: the reference has every reason, condition, metric and flag that
// the code defines, and no metric that it does not define.
func TestReferenceIsComplete(t *testing.T) {
	t.Parallel()
	text := reference(t)
	metrics := map[string]bool{}
	var shown, flags int
	forEachSource(t, func(path, source string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, match := range flagOf.FindAllStringSubmatch(source, -1) {
			flags++
			require.Contains(t, text, "`--"+match[1]+"`", "the reference lacks a flag")
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				for i, name := range node.Names {
					if i < len(node.Values) && shownName.MatchString(name.Name) && shownText.MatchString(literal(node.Values[i])) {
						shown++
						require.Contains(t, text, "`"+literal(node.Values[i])+"`", "%s: the reference lacks the value of %s", path, name.Name)
					}
				}
			case *ast.BasicLit:
				if metric := literal(node); metricName.MatchString(metric) {
					metrics[metric] = true
					require.Contains(t, text, "`"+metric+"`", "%s: the reference lacks a metric", path)
				}
			}
			return true
		})
	}, "cmd", "pkg")
	require.Greater(t, shown, 60)
	require.Greater(t, flags, 8)
	for _, match := range anyMetric.FindAllStringSubmatch(text, -1) {
		require.Contains(t, metrics, match[1], "the reference has a metric that the code does not define")
	}
}

// literal returns the value of a string literal, and nothing for any other expression.
func literal(expression ast.Expr) string {
	if basic, ok := expression.(*ast.BasicLit); ok && basic.Kind == token.STRING {
		if value, err := strconv.Unquote(basic.Value); err == nil {
			return value
		}
	}
	return ""
}
