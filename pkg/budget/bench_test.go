// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// benchCounts returns Counts with budgets of all kinds, which all select all nodes. Every tenth
// node has failed, every hundredth is under remediation.
func benchCounts(nodes, budgets int) *Counts {
	c := NewCounts()
	for i := range budgets {
		options := [][]option{
			{byZone, maxUnhealthy("30%")}, {maxConcurrent("50%")}, {byZone, minInterval(time.Minute)}, {maxConcurrent("100%"), schedule("0 8 * * MON-FRI", "Europe/Berlin", 10*time.Hour)},
		}[i%4]
		c.SetBudget(Parse(budget(fmt.Sprintf("budget-%03d", i), options...)), nil)
	}
	for i := range nodes {
		c.SetNode(benchName(i), benchNode(i))
	}
	return c
}

func benchName(i int) string { return fmt.Sprintf("node-%05d", i) }

func benchNode(i int) Node {
	zone := fmt.Sprintf("zone-%d", i%100)
	switch {
	case i%100 == 0:
		return remediated(zone)
	case i%10 == 1:
		return notReady(zone)
	}
	return healthy(zone)
}

func benchCandidates(n int) (candidates []Candidate) {
	for i := range n {
		candidates = append(candidates, due(benchName(10*i+1), i))
	}
	return candidates
}

var benchSizes = []struct{ nodes, budgets int }{{1000, 20}, {5000, 200}}

// BenchmarkAdmit is a health check that looks, while others wait for 100 nodes or for none.
func BenchmarkAdmit(b *testing.B) {
	for _, size := range benchSizes {
		for _, others := range []int{0, 100} {
			for _, candidates := range []int{0, 1, 100} {
				b.Run(fmt.Sprintf("nodes=%d/budgets=%d/waiting=%d/candidates=%d", size.nodes, size.budgets, others, candidates), func(b *testing.B) {
					c, list := benchCounts(size.nodes, size.budgets), benchCandidates(candidates)
					if others > 0 {
						c.SetBudget(Parse(budget("stop", maxConcurrent("0"))), nil)
						require.Len(b, c.Admit(nhc("y"), benchCandidates(others), noon), others)
						c.RemoveBudget("stop")
					}
					b.ReportAllocs()
					for b.Loop() {
						c.Admit(nhc("x"), list, noon)
						for i := range list {
							c.End(nhc("x"), list[i].Node, NotBegun, noon)
						}
					}
				})
			}
		}
	}
}

// BenchmarkWoken looks for those that may begin among many that may not.
func BenchmarkWoken(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("nodes=%d/budgets=%d/waiting=%d", size.nodes, size.budgets, size.nodes/10), func(b *testing.B) {
			c := benchCounts(size.nodes, size.budgets)
			c.SetBudget(Parse(budget("stop", maxConcurrent("0"))), nil)
			require.Len(b, c.Admit(nhc("x"), benchCandidates(size.nodes/10), noon), size.nodes/10)
			b.ReportAllocs()
			for b.Loop() {
				require.Empty(b, c.Woken(noon))
			}
		})
	}
}

// BenchmarkSetNode is a node that changes for the budgets, or does not.
func BenchmarkSetNode(b *testing.B) {
	for _, size := range benchSizes {
		for name, change := range map[string]func(i int) Node{
			"same":  func(int) Node { return benchNode(2) },
			"ready": func(i int) Node { node := benchNode(2); node.NotReady = i%2 == 0; return node },
			"zone":  func(i int) Node { return benchNode(2 + i%2) },
		} {
			b.Run(fmt.Sprintf("nodes=%d/budgets=%d/changes=%s", size.nodes, size.budgets, name), func(b *testing.B) {
				c := benchCounts(size.nodes, size.budgets)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					c.SetNode(benchName(2), change(i))
				}
			})
		}
	}
}

// BenchmarkSetBudget is a budget that is edited.
func BenchmarkSetBudget(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("nodes=%d/budgets=%d", size.nodes, size.budgets), func(b *testing.B) {
			c, edited := benchCounts(size.nodes, size.budgets), Parse(budget("budget-000", byZone, maxUnhealthy("30%")))
			b.ReportAllocs()
			for b.Loop() {
				c.SetBudget(edited, nil)
			}
		})
	}
}

// BenchmarkStatus is the status of all budgets, which has not changed.
func BenchmarkStatus(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("nodes=%d/budgets=%d/waiting=%d", size.nodes, size.budgets, size.nodes/10), func(b *testing.B) {
			c := benchCounts(size.nodes, size.budgets)
			c.Admit(nhc("x"), benchCandidates(size.nodes/10), noon)
			old := map[string]*v1alpha1.RemediationBudgetStatus{}
			for _, name := range c.Budgets() {
				old[name] = c.Status(name, &v1alpha1.RemediationBudgetStatus{}, noon)
			}
			b.ReportAllocs()
			for b.Loop() {
				for name, status := range old {
					require.Same(b, status, c.Status(name, status, noon))
				}
				c.NextChange(noon)
			}
		})
	}
}

// BenchmarkPhase is the cost of schedules, also of unusual ones.
func BenchmarkPhase(b *testing.B) {
	for name, cron := range map[string]string{"workdays": "0 8 * * MON-FRI", "each minute": "* * * * *", "leap day": "0 0 29 2 *"} {
		for _, d := range []time.Duration{time.Hour, 1<<63 - 1} {
			b.Run(fmt.Sprintf("%s for %.0fh", name, d.Hours()), func(b *testing.B) {
				options := []option{maxConcurrent("0")}
				for range 16 {
					options = append(options, schedule(cron, "Europe/Berlin", d))
				}
				parsed := Parse(budget("b", options...))
				for b.Loop() {
					parsed.phaseAt(noon)
				}
			})
		}
	}
}
