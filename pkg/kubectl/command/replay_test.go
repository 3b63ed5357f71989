// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
)

func simulateFile(name string) string { return filepath.Join("testdata", "simulate", name) }

var storm = filepath.Join("testdata", "replay", "storm.json")

// TestReplay: what the same recording comes to under different rules.
func TestReplay(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"gate":   {"-f", "gate.yaml"},
		"budget": {"-f", "storm.yaml", "-f", "budget.yaml"},
	} {
		out, errOut, code := simulate(t, "", append(args, "--replay", storm)...)
		require.Empty(t, errOut, name)
		require.Equal(t, ExitOK, code, name)
		requireGolden(t, filepath.Join("testdata", "replay", name+".txt"), out)
	}
}

// TestReplayJSON: programs get the same.
func TestReplayJSON(t *testing.T) {
	t.Parallel()
	out, errOut, code := simulate(t, "", "-f", "gate.yaml", "-o", "json", "--replay", storm)
	require.Equal(t, ExitOK, code, errOut)
	var result simulation.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Equal(t, 2, result.Summary.Remediations)
	require.Equal(t, []string{"workers"}, result.Checks)
	require.NotEmpty(t, result.Timeline)
}

// TestReplayTruncated: a recording from standard input that was cut off is played, and that is said.
func TestReplayTruncated(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(storm)
	require.NoError(t, err)
	out, errOut, code := simulate(t, string(whole[:len(whole)-10]), "-f", "gate.yaml", "--replay", "-")
	require.Equal(t, ExitOK, code, errOut)
	require.Contains(t, out, "The last event of the recording is cut off, and was left out.\n")
}

// TestReplayErrors: each says what to do, and nothing else is printed.
func TestReplayErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		input string
		args  []string
		want  string
	}{
		"no such recording": {"", []string{"-f", "gate.yaml", "--replay", "missing.json"}, "Cannot read the recording: open missing.json: no such file or directory."},
		"a directory":       {"", []string{"-f", "gate.yaml", "--replay", "testdata"}, "testdata cannot be read: read testdata: is a directory."},
		"no recording":      {"", []string{"-f", "gate.yaml", "--replay", "gate.yaml"}, "testdata/simulate/gate.yaml is no JSON at byte 1. Give what "},
		"nothing in it":     {"", []string{"-f", "gate.yaml", "--replay", "-"}, `standard input is empty. Give what "kubectl get nodes --watch --output-watch-events -o json" has printed.`},
		"no check":          {"", []string{"--replay", storm}, "There is no NodeHealthCheck to simulate: give one with --filename."},
		"one input":         {"", []string{"-f", "-", "--replay", "-"}, "Standard input can be read once only: give files for all but one of "},
		"two ways to fail":  {"", []string{"-f", "gate.yaml", "--replay", storm, "--fail", "a-1"}, "if any flags in the group [replay fail] are set none of the others can be; [fail replay] were all set"},
	} {
		out, errOut, code := simulate(t, tc.input, tc.args...)
		require.Contains(t, errOut, "Error: "+tc.want, name)
		require.Empty(t, out, name)
		require.Equal(t, ExitError, code, name)
	}
}
