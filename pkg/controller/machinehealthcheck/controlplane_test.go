// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSlotTakenByOthers: of those that are waited for, the first by name may be remediated, unless
// another one has a remediation object (spec M13.1).
func TestSlotTakenByOthers(t *testing.T) {
	t.Parallel()
	named := func(names ...string) (occupants []occupant) {
		for _, name := range names {
			occupants = append(occupants, occupant{name: name})
		}
		return occupants
	}
	for name, tc := range map[string]struct {
		awaited, remediated []occupant
		want                []string
	}{
		"nothing":                      {},
		"itself":                       {awaited: named("b"), remediated: named("b")},
		"itself, the first of several": {awaited: named("c", "b", "c")},
		"itself, not the first":        {awaited: named("a", "b", "c"), want: []string{"a", "c"}},
		"others":                       {awaited: named("c", "a", "c"), want: []string{"a", "c"}},
		"another one is remediated":    {remediated: named("a"), want: []string{"a"}},
		"another one is both":          {awaited: named("c"), remediated: named("c"), want: []string{"c"}},
		"itself, the first, and another one is remediated": {awaited: named("b", "c"), remediated: named("c"), want: []string{"c"}},
		"itself is remediated, and not the first":          {awaited: named("a", "b"), remediated: named("b"), want: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, namesOf(others(tc.awaited, tc.remediated, "b")))
		})
	}
}
