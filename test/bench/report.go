// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// goal is a row of the table: something measured, and what it is meant to be, if
// there is a bound.
type goal struct {
	Scenario string
	What     string
	Value    float64
	Control  *float64
	Unit     string
	AtMost   *float64
	AtLeast  *float64
}

// bounded reports whether there is a bound, and met whether it is kept.
func (g goal) bounded() (met, bounded bool) {
	met = (g.AtMost == nil || g.Value <= *g.AtMost) && (g.AtLeast == nil || g.Value >= *g.AtLeast)
	return met, g.AtMost != nil || g.AtLeast != nil
}

// sizeResult has the results of one cluster.
type sizeResult struct {
	Nodes    int
	Outcomes map[string]outcome
}

// report has the results of all clusters.
type report []*sizeResult

// goals returns the rows of all scenarios, in their order.
func (s *sizeResult) goals() []goal {
	var all []goal
	for _, name := range scenarioNames() {
		if o, measured := s.Outcomes[name]; measured {
			all = append(all, o.goals()...)
		}
	}
	return all
}

// missed returns how many goals were not met.
func (r report) missed() int {
	missed := 0
	for _, size := range r {
		for _, g := range size.goals() {
			if met, _ := g.bounded(); !met {
				missed++
			}
		}
	}
	return missed
}

// print prints a table for each size.
func (r report) print(out io.Writer) {
	for _, size := range r {
		fmt.Fprintf(out, "\n%d nodes\n", size.Nodes)
		printGoals(out, "", size.goals())
	}
	if first, last := r.idle(); first != nil {
		a, b := first.Outcomes["idle"].(*idleOutcome), last.Outcomes["idle"].(*idleOutcome)
		fmt.Fprintf(out, "\nMemory per node, from %d to %d nodes: %.1f kB\n", first.Nodes, last.Nodes, float64(b.RSS-a.RSS)/1000/float64(last.Nodes-first.Nodes))
	}
}

// idle returns the smallest and the largest size with an idle controller, or nil if
// there are no two.
func (r report) idle() (first, last *sizeResult) {
	for _, size := range r {
		if size.Outcomes["idle"] == nil {
			continue
		}
		if first == nil || size.Nodes < first.Nodes {
			first = size
		}
		if last == nil || size.Nodes > last.Nodes {
			last = size
		}
	}
	if first == nil || first.Nodes == last.Nodes {
		return nil, nil
	}
	return first, last
}

// printGoals prints rows, aligned.
func printGoals(out io.Writer, indent string, goals []goal) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, g := range goals {
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\n", indent, g.Scenario, g.What, g.value(), g.verdict())
	}
	_ = table.Flush() // Standard output, or a buffer.
}

func (g goal) value() string {
	text := figure(g.Value)
	if g.Control != nil {
		text += " (" + figure(*g.Control) + ")"
	}
	if g.Unit != "" {
		text += " " + g.Unit
	}
	return text
}

// verdict returns the bound and whether it was kept.
func (g goal) verdict() string {
	met, bounded := g.bounded()
	if !bounded {
		return ""
	}
	var text string
	if g.AtMost != nil {
		text = "at most " + figure(*g.AtMost)
	} else {
		text = "at least " + figure(*g.AtLeast)
	}
	if met {
		return text + ": met"
	}
	return text + ": NOT MET"
}

// figure writes a number with no more digits than it deserves.
func figure(v float64) string {
	switch abs := max(v, -v); {
	case v == float64(int64(v)):
		return fmt.Sprintf("%d", int64(v))
	case abs >= 100:
		return fmt.Sprintf("%.0f", v)
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	case abs >= 0.1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.4f", v)
	}
}
