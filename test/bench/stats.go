// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"time"
)

// distribution describes times, in milliseconds.
type distribution struct {
	Count int
	P50   float64
	P90   float64
	P99   float64 // From enoughForP99 samples on.
	Max   float64
}

// enoughForP99 is how many samples it takes for the 99th percentile to be more than one of the
// largest.
const enoughForP99 = 500

func distributionOf(times []time.Duration) distribution {
	if len(times) == 0 {
		return distribution{}
	}
	d := distribution{Count: len(times)}
	var sorted []float64
	for _, t := range times {
		sorted = append(sorted, milliseconds(t))
	}
	slices.Sort(sorted)
	d.Max = sorted[len(sorted)-1]
	d.P50, d.P90 = percentile(sorted, 50), percentile(sorted, 90)
	if len(sorted) >= enoughForP99 {
		d.P99 = percentile(sorted, 99)
	}
	return d
}

// percentile returns the smallest of the sorted values that p percent of them do not
// exceed.
func percentile(sorted []float64, p float64) float64 {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return percentile(slices.Sorted(slices.Values(values)), 50)
}

// ratio returns a/b, and zero if there is nothing to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
