// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllRules: the list has every rule that the code of this package names.
func TestAllRules(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	named := map[string]bool{}
	rule := regexp.MustCompile(`(?:check\(|kept\(|other\(|content\(|checks\[|finding\{|rule: |Rule: |\{)"([MB]?[0-9]+[a-d]?\.[0-9]+|P[0-9]+)"`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "rules.go" {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range rule.FindAllStringSubmatch(string(source), -1) {
			named[match[1]] = true
		}
	}
	var rules []string
	for name := range named {
		rules = append(rules, name)
	}
	require.ElementsMatch(t, rules, slices.Concat(allRules, machineRules, budgetRules))
	require.Equal(t, machineRules, UncheckedOfMachines(nil))
	require.Equal(t, budgetRules, UncheckedOfBudgets(nil))
	require.Equal(t, allRules, Unchecked(nil))
	require.NotContains(t, Unchecked(map[string]int{"8.5": 1}), "8.5")
}
