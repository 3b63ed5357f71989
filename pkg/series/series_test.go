// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestForget: the series of an object go with it, those of others stay (spec P4).
func TestForget(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	set := Of("name", "namespace")
	gauge, counter, histogram := set.Gauge("g", "a"), set.Counter("c_total", "b", "reason"), set.Histogram("h_seconds", "c", 1, 3)
	require.NoError(t, set.Register(registry))
	require.Error(t, set.Register(registry), "twice")
	for _, name := range []string{"a", "b"} {
		gauge.WithLabelValues(name, "ns").Set(Truth(true))
		counter.WithLabelValues(name, "ns", "x").Inc()
		counter.WithLabelValues(name, "ns", "y").Add(Truth(false))
		histogram.WithLabelValues(name, "ns").Observe(2)
	}
	count := func() int {
		families, err := registry.Gather()
		require.NoError(t, err)
		n := 0
		for _, family := range families {
			n += len(family.GetMetric())
		}
		return n
	}
	require.Equal(t, 8, count())
	set.Forget("a", "ns")
	require.Equal(t, 4, count())
	set.Forget("b", "other")
	require.Equal(t, 4, count())
}
