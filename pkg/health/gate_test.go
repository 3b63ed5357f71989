// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestEvaluateGate(t *testing.T) {
	number := func(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }
	text := func(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }
	tests := map[string]struct {
		minHealthy, maxUnhealthy *intstr.IntOrString
		observed, healthy        int
		open                     bool
		required                 int
	}{
		"8.1 minHealthy just reached":                {minHealthy: number(2), observed: 3, healthy: 2, open: true, required: 2},
		"8.1 minHealthy missed by one":               {minHealthy: number(2), observed: 3, healthy: 1, required: 2},
		"8.1 maxUnhealthy just kept":                 {maxUnhealthy: number(1), observed: 3, healthy: 2, open: true, required: 2},
		"8.1 maxUnhealthy exceeded by one":           {maxUnhealthy: number(1), observed: 3, healthy: 1, required: 2},
		"8.2 numeric string":                         {minHealthy: text("2"), observed: 3, healthy: 2, open: true, required: 2},
		"8.2 75% of 10 is 8, closed at 7":            {minHealthy: text("75%"), observed: 10, healthy: 7, required: 8},
		"8.2 75% of 10 is 8, open at 8":              {minHealthy: text("75%"), observed: 10, healthy: 8, open: true, required: 8},
		"8.2 0% needs no healthy node":               {minHealthy: text("0%"), observed: 10, open: true},
		"8.2 100% of 10 is 10":                       {minHealthy: text("100%"), observed: 10, healthy: 9, required: 10},
		"8.2 maxUnhealthy is rounded up too":         {maxUnhealthy: text("51%"), observed: 3, healthy: 1, open: true, required: 1},
		"8.2 no rounding error at exact percentages": {minHealthy: text("29%"), observed: 100, healthy: 29, open: true, required: 29},
		"8.3 maxUnhealthy above the number of nodes": {maxUnhealthy: number(9), observed: 3, open: true, required: -6},
		"8.3 minHealthy 100% with all healthy":       {minHealthy: text("100%"), observed: 3, healthy: 3, open: true, required: 3},
		"8.3 maxUnhealthy 0% blocks at the first":    {maxUnhealthy: text("0%"), observed: 3, healthy: 2, required: 3},
		"8.3 maxUnhealthy 0% with all healthy":       {maxUnhealthy: text("0%"), observed: 3, healthy: 3, open: true, required: 3},
		"no nodes":                                   {minHealthy: number(1), required: 1},
		"both are given":                             {minHealthy: number(0), maxUnhealthy: number(3), observed: 3, healthy: 3, required: 3},
		"none is given":                              {observed: 3, healthy: 3, required: 3},
		"negative":                                   {minHealthy: number(-1), observed: 3, healthy: 3, required: 3},
		"garbage":                                    {minHealthy: text("x%"), observed: 3, healthy: 3, required: 3},
		"a number larger than any cluster":           {maxUnhealthy: text("99999999999999999999"), observed: 3, open: true, required: 3 - 1<<31 + 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := Gate{Open: tc.open, Observed: tc.observed, Healthy: tc.healthy, Required: tc.required}
			require.Equal(t, want, EvaluateGate(tc.minHealthy, tc.maxUnhealthy, tc.observed, tc.healthy))
		})
	}
}
