// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Clean returns a text as it may be printed on one line of a terminal. Line breaks and tabs become
// spaces. Other control characters, among them those that begin an escape sequence, marks that
// change the direction or hide text, and bytes that are no UTF-8 become the replacement character.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t', r == '\u2028', r == '\u2029', r == '\u0085':
			return ' '
		case r == utf8.RuneError, unicode.Is(unicode.C, r): // Control, format, surrogate, private use.
			return utf8.RuneError
		default:
			return r
		}
	}, text)
}

// Width returns how many columns a clean text takes.
func Width(text string) int {
	columns := 0
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

func runeWidth(r rune) int {
	if r < utf8.RuneSelf {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}
