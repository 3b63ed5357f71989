// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeindex

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkIndex has 10,000 nodes and 50 checks. 60 % of the nodes need a look, and two checks
// select each node.
func BenchmarkIndex(b *testing.B) {
	const size, pools = 10_000, 49
	pool := func(i int) string { return fmt.Sprintf("pool-%02d", i%pools) }
	name := func(i int) string { return fmt.Sprintf("node-%05d", i) }
	index, nodes := newIndex()
	for i := range size {
		nodes.put(node(name(i), pool(i), []string{"Sick", "Other"}[i%5/3]))
	}
	all, generation := check("all", 0), int64(0)
	index.SetCheck(all)
	for i := range pools {
		index.SetCheck(check(pool(i), 0, pool(i)))
	}
	for what, states := range map[string][2][2]string{
		"another label":     {{pool(7), "Sick"}, {pool(7), "Sick"}},
		"another condition": {{pool(7), "Sick"}, {pool(7), "Other"}},
		"another pool":      {{pool(7), "Sick"}, {pool(8), "Sick"}},
	} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			variants := []*corev1.Node{node(name(7), states[0][0], states[0][1]), node(name(7), states[1][0], states[1][1])}
			for i := 0; b.Loop(); i++ {
				nodes.put(variants[i%2])
				index.NodeChanged(name(7), false)
			}
		})
	}
	b.Run("read by a sync", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			index.NeedingLook(all.Version)
			index.Overlaps("all")
		}
	})
	b.Run("read by a sync after a change", func(b *testing.B) {
		b.ReportAllocs()
		variants := []*corev1.Node{node(name(7), pool(7), "Sick"), node(name(7), pool(7), "Other")}
		for i := 0; b.Loop(); i++ {
			nodes.put(variants[i%2])
			index.NodeChanged(name(7), false)
			index.NeedingLook(all.Version)
		}
	})
	b.Run("another selector", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			generation++
			index.RemoveCheck("all")
			index.SetCheck(check("all", generation))
		}
	})
}
