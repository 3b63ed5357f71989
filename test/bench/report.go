// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nhc-controller/nhc-controller/test/meter"
)

// goal is a row of the table: something measured, and what it is meant to be, if
// there is a bound.
type goal struct {
	Scenario string   `json:"scenario"`
	What     string   `json:"what"`
	Value    float64  `json:"value"`
	Control  *float64 `json:"control,omitempty"`
	Unit     string   `json:"unit,omitempty"`
	AtMost   *float64 `json:"atMost,omitempty"`
	AtLeast  *float64 `json:"atLeast,omitempty"`
}

// bounded reports whether there is a bound, and met whether it is kept.
func (g goal) bounded() (met, bounded bool) {
	met = (g.AtMost == nil || g.Value <= *g.AtMost) && (g.AtLeast == nil || g.Value >= *g.AtLeast)
	return met, g.AtMost != nil || g.AtLeast != nil
}

// report is the JSON file.
type report struct {
	Date           time.Time     `json:"date"`
	Seconds        float64       `json:"seconds"` // How long it took.
	Machine        machine       `json:"machine"`
	Controller     string        `json:"controller"`
	ControllerArgs []string      `json:"controllerArgs,omitempty"`
	Seed           uint64        `json:"seed"`
	Samples        int           `json:"samples"`
	Rounds         int           `json:"rounds"`
	Sizes          []*sizeResult `json:"sizes"`
	Goals          []sizeGoal    `json:"goals"`
}

type machine struct {
	Cores       int    `json:"cores"`
	CPU         string `json:"cpu"`
	MemoryBytes int64  `json:"memoryBytes"`
	System      string `json:"system"`
	GoVersion   string `json:"goVersion"`
}

// sizeResult has the results of one cluster.
type sizeResult struct {
	Nodes    int                `json:"nodes"`
	Outcomes map[string]outcome `json:"outcomes"`
}

// sizeGoal is a row of the table, and whether its bound was kept.
type sizeGoal struct {
	Nodes int `json:"nodes"`
	goal

	Met *bool `json:"met,omitempty"`
}

func newReport(o *options, now time.Time) *report {
	return &report{
		Date: now.UTC(), Machine: thisMachine(), Controller: filepath.Base(o.controller), ControllerArgs: o.controllerArgs,
		Seed: o.seed, Samples: o.samples, Rounds: o.rounds,
	}
}

func thisMachine() machine {
	m := machine{Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, GoVersion: runtime.Version()}
	if memory, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.MemoryBytes = meter.Field(string(memory), "MemTotal:") * 1024
	}
	if cpus, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(cpus)) {
			if name, model, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(model)
			}
		}
	}
	return m
}

// write writes the JSON file, and returns its path.
func (r *report) write(dir string) (string, error) {
	for _, size := range r.Sizes {
		for _, g := range size.goals() {
			row := sizeGoal{Nodes: size.Nodes, goal: g}
			if met, bounded := g.bounded(); bounded {
				row.Met = &met
			}
			r.Goals = append(r.Goals, row)
		}
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bench-"+r.Date.Format("20060102-150405")+".json")
	return path, os.WriteFile(path, append(content, '\n'), 0o644)
}

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
func (r *report) missed() int {
	missed := 0
	for _, g := range r.Goals {
		if met, _ := g.bounded(); !met {
			missed++
		}
	}
	return missed
}

// print prints a table for each size.
func (r *report) print(out io.Writer) {
	for _, size := range r.Sizes {
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
func (r *report) idle() (first, last *sizeResult) {
	for _, size := range r.Sizes {
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
