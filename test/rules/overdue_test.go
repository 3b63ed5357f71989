// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOverdue asks for what is late at some times, in order. There is a NodeHealthCheck for an unhealthy node from the 11th
// second until the 16th, and nothing is done.
func TestOverdue(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]map[float64]bool{
		"for less than two seconds":              {12.9: false},
		"for two seconds":                        {13: true},
		"nothing was unsettled shortly before":   {10.9: false, 12.8: false, 13: true},
		"it is late again and again":             {10: false, 13: true, 14: true},
		"it has ended":                           {15.9: true, 16.1: false, 18.5: false},
		"nothing was unsettled, and then it was": {10: false, 11.5: false, 13.1: true, 16.5: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.node(past, failedNode("n"))
			d := NewDeadlines(s.Judge)
			change := func(seconds float64, nhc *NHC) {
				add(s.nhcs, "nhc", s.next(), at(seconds), nhc)
				s.changes = append(s.changes, instant{at(seconds), s.rv})
			}
			for tenths := 95; tenths < 200; tenths++ {
				second := float64(tenths) / 10
				switch tenths {
				case 110:
					change(second, healthCheck())
				case 160:
					change(second, nil)
				}
				if late, ok := asked[second]; ok {
					var rules []string
					for _, v := range d.Overdue(at(second), time.Time{}) {
						rules = append(rules, v.Rule)
					}
					if late {
						require.Contains(t, rules, "P12", "%v s", second)
					} else {
						require.Empty(t, rules, "%v s", second)
					}
				}
			}
		})
	}
}
