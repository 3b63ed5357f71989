// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package patience

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLimit: a busy machine has more time, up to a bound.
func TestLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		load float64
		want time.Duration
	}{
		"idle":                         {0, 90 * time.Second},
		"busy with these tests":        {4, 90 * time.Second},
		"busy with other work, too":    {10, 225 * time.Second},
		"so busy that it is pointless": {1000, 450 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, limit(tc.load)) })
	}
}

// TestParseLoad: a system that does not say how busy it is counts as idle.
func TestParseLoad(t *testing.T) {
	for text, want := range map[string][2]float64{
		"4.50 0.18 0.12 13/812 11206\n": {4.5, 13},
		"4.50 0.18":                     {4.5, 0},
		"":                              {0, 0},
	} {
		t.Run(text, func(t *testing.T) {
			average, runnable := parseLoad(text)
			require.Equal(t, want, [2]float64{average, float64(runnable)})
		})
	}
}
