// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// clean replaces characters in a page that html/template leaves, because they are no markup: control
// characters, marks that change the direction of the text or hide some of it, and bytes that are no
// UTF-8. The templates have none of them, so they come from the cluster.
func clean(page []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (r == utf8.RuneError || unicode.Is(unicode.C, r)) {
			return utf8.RuneError
		}
		return r
	}, page)
}
