// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"slices"
	"testing"
)

// BenchmarkStorm is a sync in which nothing changes for 5,000 nodes under
// remediation.
func BenchmarkStorm(b *testing.B) {
	var seen []Observation
	for i := range 5000 {
		seen = append(seen, unhealthy(named(fmt.Sprintf("node-%d", i)), with(reboot(6))))
	}
	l, _ := Recall(nil).Update(slices.Values(seen), at(7))
	b.Run("update", func(b *testing.B) {
		for b.Loop() {
			l.Update(slices.Values(seen), at(8))
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			l.List(new(int32(100)))
		}
	})
}
