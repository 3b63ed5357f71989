// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"strings"
)

// compareNames orders names as people do: the numbers in them count as numbers, so that n2 is before n10.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		textA, numberA, restA := split(a)
		textB, numberB, restB := split(b)
		if order := cmp.Or(cmp.Compare(textA, textB), cmp.Compare(len(numberA), len(numberB)), cmp.Compare(numberA, numberB)); order != 0 {
			return order
		}
		a, b = restA, restB
	}
	return cmp.Compare(a, b)
}

// split returns what is before the first number of a name, the number without leading zeros, and the rest.
func split(name string) (text, number, rest string) {
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	first := strings.IndexFunc(name, digit)
	if first < 0 {
		return name, "", ""
	}
	end := first + len(name[first:]) - len(strings.TrimLeftFunc(name[first:], digit))
	return name[:first], strings.TrimLeft(name[first:end], "0"), name[end:]
}
