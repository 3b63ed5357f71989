// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUsageOf(t *testing.T) {
	t.Parallel()
	cpu, err := parseCPU("12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0")
	require.NoError(t, err)
	require.Equal(t, 1750*time.Millisecond, cpu)
	_, err = parseCPU("12 (a) S 1 2")
	require.Error(t, err)
	u, err := UsageOf(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, u.RSS)
	require.GreaterOrEqual(t, u.Peak, u.RSS)
	require.Positive(t, u.Read)
	_, err = UsageOf(-1)
	require.Error(t, err)
}

func TestSum(t *testing.T) {
	t.Parallel()
	body := "# HELP a_total x\na_total{n=\"1\"} 2\na_total{n=\"2\"} 3.5\na_total_more 7\nb 1\n"
	require.InDelta(t, 5.5, Sum(body, "a_total"), 0)
	require.Zero(t, Sum(body, "c"))
}
