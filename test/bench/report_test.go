// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPrintGoals(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	printGoals(&out, "  ", []goal{
		{Scenario: "idle", What: "memory", Value: 44.06, Unit: "MB"},
		{Scenario: "idle", What: "requests", Value: 0, AtMost: new(0.0)},
		{Scenario: "storm", What: "ratio", Value: 1.534, AtMost: new(1.5)},
		{Scenario: "timer", What: "lateness", Value: 0.5, Control: new(0.004), Unit: "ms", AtLeast: new(0.0)},
	})
	require.Equal(t, `
  idle   memory    44.1 MB           
  idle   requests  0                 at most 0: met
  storm  ratio     1.53              at most 1.50: NOT MET
  timer  lateness  0.50 (0.0040) ms  at least 0: met
`, "\n"+out.String())
}

func TestFigure(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]float64{
		"0": 0, "12345": 12345, "1235": 1234.6, "-12.3": -12.34, "1.50": 1.5, "0.12": 0.1234, "0.0012": 0.00123,
	} {
		require.Equal(t, want, figure(value))
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"-nodes=10, 30", "-scenarios=idle,storm", "-controller=/bin/sh", "-controller-args=-v=4  -x"})
	require.NoError(t, err)
	require.Equal(t, []int{10, 30}, o.sizes)
	require.Equal(t, []string{"idle", "storm"}, o.scenarios)
	require.Equal(t, []string{"-v=4", "-x"}, o.controllerArgs)
	r := newReport(o, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for _, nodes := range o.sizes {
		idle := &idleOutcome{consumption: &consumption{Seconds: 1, RSS: int64(nodes) * 2000}, Watched: []string{"leases"}}
		r.Sizes = append(r.Sizes, &sizeResult{Nodes: nodes, Outcomes: map[string]outcome{"idle": idle}})
	}
	path, err := r.write(t.TempDir())
	require.NoError(t, err)
	require.Contains(t, path, "bench-20260102-030405.json")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var back struct {
		Sizes []struct {
			Outcomes struct{ Idle struct{ RSSBytes int } }
		}
		Goals []struct {
			What string
			Met  *bool
		}
	}
	require.NoError(t, json.Unmarshal(content, &back))
	require.Equal(t, 60000, back.Sizes[1].Outcomes.Idle.RSSBytes)
	verdicts := map[string]bool{}
	for _, g := range back.Goals {
		if g.Met != nil {
			verdicts[g.What] = *g.Met
		}
	}
	require.Equal(t, map[string]bool{"requests": true, "watches of kubelet leases": false}, verdicts)
	var out strings.Builder
	r.print(&out)
	require.Contains(t, out.String(), "Memory per node, from 10 to 30 nodes: 2.0 kB")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for flag, problem := range map[string]string{
		"-nodes=5":              "at least 10 nodes",
		"-nodes=many":           "many",
		"-scenarios=sleep":      "sleep",
		"-samples=0":            "at least 1",
		"-duration=1ms":         "at least 1s",
		"-controller=/no/where": "looking for the controller",
		"more":                  "unexpected arguments",
	} {
		_, err := parseOptions([]string{"-controller=/bin/sh", flag})
		require.ErrorContains(t, err, problem, flag)
	}
}
