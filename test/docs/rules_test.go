// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs tests the documentation against the source.
package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// untested are the rules that no test can break: terms, an account of what the autoscaler does, what users may do, and what
// the documentation has.
var untested = regexp.MustCompile(`^(M?1\.\d+|20\.4|M14\.6|M20\.4|B5\.4)$`)

// leading is the number of a rule at the beginning of a string, such as the name of a subtest or the message of an assertion.
var leading = regexp.MustCompile("[\"`]" + `(P\d+|[MB]?\d+[a-z]?\.\d+)[ :"/` + "`-]")

// named returns the rules that the source of a test names.
func named(source string) []string {
	numbers := citations(source)
	for _, match := range leading.FindAllStringSubmatch(source, -1) {
		numbers = append(numbers, match[1])
	}
	return numbers
}

func TestNamed(t *testing.T) {
	t.Parallel()
	source := "// TestA: what waits (spec 8.4).\nt.Run(\"14.7-overdue\", f)\nrequire.True(t, ok, \"M7.2: %s, not 9.1\", x)\nj.report(\"B4.1\", 1)"
	require.ElementsMatch(t, []string{"8.4", "14.7", "M7.2", "B4.1"}, named(source))
}

// TestRulesHaveTests: a test, or the judge of the tests, names each numbered rule and each principle of the reference.
func TestRulesHaveTests(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	forEachSource(t, func(path, source string) {
		isTest := strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "test/docs/")
		if isTest || strings.Contains(path, "test/rules/") {
			for _, number := range named(source) {
				tested[number] = true
			}
		}
	}, "cmd", "hack", "pkg", "test")
	var missing []string
	for number := range numbersInReference(t) {
		isRule := strings.HasPrefix(number, "P") || strings.Contains(number, ".")
		if isRule && !tested[number] && !untested.MatchString(number) {
			missing = append(missing, number)
		}
	}
	slices.Sort(missing)
	require.Empty(t, missing, "no test names these rules of docs/reference")
}
