// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words are how many words a page may have, or the pages of a directory (with / at its end) each.
var words = map[string]int{
	"README.md": 850, "CHANGELOG.md": 250, "docs/operations.md": 1800, "docs/kubectl-nhc.md": 1800, "docs/performance.md": 900,
	"docs/testing.md": 1800, "docs/design.md": 3600, "docs/security.md": 1850, "docs/machine-health-check.md": 1550, "docs/configuration.md": 1250, "docs/runbooks/": 450,
}

const (
	// anyPage is for a page that words does not have.
	anyPage = 1200
	// rules is for docs/reference in all, where pages have no limit of their own, and whole for all pages.
	rules, whole = 19_000, 47_500
	// cell is for a cell of a table in the design: about three lines.
	cell = 45
)

// TestPagesAreShort: no page has more words than it may have.
func TestPagesAreShort(t *testing.T) {
	t.Parallel()
	var tooLong []string
	limit := func(name string, has, may int) {
		if has > may {
			tooLong = append(tooLong, fmt.Sprintf("%s has %d words of %d", name, has, may))
		}
	}
	all, reference := 0, 0
	for name, page := range pages(t) {
		has := len(strings.Fields(page))
		all += has
		directory := name[:strings.LastIndex(name, "/")+1]
		may, given := words[name]
		if !given {
			may, given = words[directory]
		}
		switch {
		case directory == "docs/reference/":
			reference += has
		case given:
			limit(name, has, may)
		default:
			limit(name, has, anyPage)
		}
	}
	limit("docs/reference", reference, rules)
	limit("all pages", all, whole)
	for row := range strings.Lines(pages(t)["docs/design.md"]) {
		if strings.HasPrefix(row, "|") {
			for text := range strings.SplitSeq(row, " | ") {
				limit("docs/design.md: "+text, len(strings.Fields(text)), cell)
			}
		}
	}
	slices.Sort(tooLong)
	require.Empty(t, strings.Join(tooLong, "\n"))
}
