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
