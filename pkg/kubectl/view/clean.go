// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"unicode"
	"unicode/utf8"
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
