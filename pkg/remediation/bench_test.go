// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkPlan plans for so many nodes at once, in the states that are frequent when
// many fail.
func BenchmarkPlan(b *testing.B) {
	s, now := classicPolicy(reboot()), epoch.Add(time.Hour)
	states := map[string]func(name string) Node{
		"begin":    func(name string) Node { return sick(name) },
		"wait":     func(name string) Node { return sick(name, under(func(c *Constraints) { c.GateClosed = true })) },
		"continue": func(name string) Node { return sick(name, with(cr(name))) },
		"recover":  func(name string) Node { return sick(name, well, with(cr(name))) },
	}
	for state, newNode := range states {
		for _, n := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", state, n), func(b *testing.B) {
				var nodes []Node
				for i := range n {
					nodes = append(nodes, newNode(fmt.Sprintf("node-%05d", i)))
				}
				b.ReportAllocs()
				for b.Loop() {
					for _, node := range nodes {
						planBy(s, node, now)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
			})
		}
	}
}
