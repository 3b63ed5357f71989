// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for name, tc := range map[string]struct {
		sorted []float64
		p      float64
		want   float64
	}{
		"one":                  {[]float64{7}, 99, 7},
		"median of two":        {[]float64{1, 2}, 50, 1},
		"median of three":      {[]float64{1, 2, 3}, 50, 2},
		"a hundred":            {hundred, 99, 99},
		"all":                  {hundred, 100, 100},
		"none":                 {hundred, 0, 1},
		"p99 of twenty is max": {hundred[:20], 99, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.InDelta(t, tc.want, percentile(tc.sorted, tc.p), 0)
		})
	}
}

func TestDistribution(t *testing.T) {
	t.Parallel()
	d := distributionOf([]time.Duration{30 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, -4 * time.Millisecond})
	require.Equal(t, distribution{Count: 4, Mean: 14, Min: -4, P50: 10, P90: 30, Max: 30, Samples: []float64{30, 10, 20, -4}}, d)
	require.Zero(t, distributionOf(nil))
	require.Zero(t, distributionOf(make([]time.Duration, enoughForP99-1)).P99)
	many := make([]time.Duration, enoughForP99)
	for i := range many {
		many[i] = time.Duration(i+1) * time.Millisecond
	}
	require.InDelta(t, 495, distributionOf(many).P99, 0)
}

func TestMedianAndRatio(t *testing.T) {
	t.Parallel()
	unsorted := []float64{3, 1, 2}
	require.InDelta(t, 2, median(unsorted), 0)
	require.Equal(t, []float64{3, 1, 2}, unsorted)
	require.Zero(t, median(nil))
	require.InDelta(t, 1.5, ratio(3, 2), 0)
	require.Zero(t, ratio(3, 0))
}
