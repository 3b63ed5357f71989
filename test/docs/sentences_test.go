// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// sentenceWords and summaryWords are how many words a sentence of the reference, and the first one of a rule, may have.
	sentenceWords, summaryWords = 35, 20
)

var (
	spans   = regexp.MustCompile("`[^`]*`")
	rule    = regexp.MustCompile(`(?m)^- (P\d+|[MB]?\d+[a-z]?\.\d+) (.*)$`)
	summary = regexp.MustCompile(`^\*\*([^*]+)[.:]\*\*`)
	// rangeOfRules is "M4.1 to M4.4".
	rangeOfRules = regexp.MustCompile(`\b(M\d+\.)(\d+) to M\d+\.(\d+)`)
	sentenceEnd  = regexp.MustCompile(`[.!?]\)? `)
)

// sentences returns the sentences of a page without its tables, headings and blocks of code. A code span is one word.
func sentences(page string) []string {
	var paragraphs []string
	paragraph := ""
	for line := range strings.Lines(codeBlock.ReplaceAllString(page, "") + "\n\n") {
		line = strings.TrimSpace(line)
		text, item := strings.CutPrefix(line, "- ")
		if item || line == "" || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") {
			paragraphs, paragraph = append(paragraphs, paragraph), ""
		}
		if !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "#") {
			paragraph += text + " "
		}
	}
	var found []string
	for _, paragraph := range paragraphs {
		plain := strings.ReplaceAll(link.ReplaceAllString(spans.ReplaceAllString(paragraph, "X"), "$1"), "*", "")
		found = append(found, sentenceEnd.Split(plain, -1)...)
	}
	return found
}

func TestSentences(t *testing.T) {
	t.Parallel()
	page := "# No heading. At all\nOne `a b. c` [two](x.md)\nthree. Four.\n| not. | this |\n- **Five.** Six\n- seven\n"
	var words []int
	for _, sentence := range sentences(page) {
		if has := len(strings.Fields(sentence)); has > 0 {
			words = append(words, has)
		}
	}
	require.Equal(t, []int{4, 1, 1, 1, 1}, words)
}

// TestRulesAreReadable: each rule begins with one short bold sentence, and no sentence of the reference is long.
func TestRulesAreReadable(t *testing.T) {
	t.Parallel()
	rules := 0
	for name, page := range pages(t) {
		if !strings.HasPrefix(name, "docs/reference/") {
			continue
		}
		for _, match := range rule.FindAllStringSubmatch(page, -1) {
			rules++
			first := summary.FindStringSubmatch(match[2])
			require.NotNil(t, first, "%s does not begin with a bold sentence", match[1])
			require.LessOrEqual(t, len(strings.Fields(first[1])), summaryWords, "%s: %s", match[1], first[1])
		}
		for _, sentence := range sentences(page) {
			require.LessOrEqual(t, len(strings.Fields(sentence)), sentenceWords, "%s: %s", name, sentence)
		}
	}
	require.Greater(t, rules, 200)
}

// TestTwins: each rule on MachineHealthChecks is in the table of twins, or among those without a twin.
func TestTwins(t *testing.T) {
	t.Parallel()
	page := pages(t)["docs/reference/machinehealthcheck.md"]
	_, twins, found := strings.Cut(page, "\n## M22 Twins\n")
	require.True(t, found)
	twins = rangeOfRules.ReplaceAllStringFunc(twins, func(match string) string {
		ends := rangeOfRules.FindStringSubmatch(match)
		first, _ := strconv.Atoi(ends[2])
		last, _ := strconv.Atoi(ends[3])
		for i := first; i <= last; i++ {
			match += " " + ends[1] + strconv.Itoa(i)
		}
		return match
	})
	named := citedNumber.FindAllString(twins, -1)
	for _, match := range rule.FindAllStringSubmatch(page, -1) {
		require.Contains(t, named, match[1], "the table of twins lacks a rule")
	}
}
