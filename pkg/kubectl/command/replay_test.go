// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
)

// replayIn runs replay with these arguments.
func replayIn(ctx context.Context, input string, args ...string) (out, errOut string, code int) {
	streams, in, outBuffer, errBuffer := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	start := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC)
	environment := Environment{IOStreams: streams, Now: func() time.Time { return start }, Getenv: func(string) string { return "" }}
	code = Run(ctx, environment, append([]string{"replay"}, args...))
	return outBuffer.String(), errBuffer.String(), code
}

func replayFile(name string) string { return filepath.Join("testdata", "replay", name) }

func simulateFile(name string) string { return filepath.Join("testdata", "simulate", name) }

// TestReplay: what the same recording comes to under different rules.
func TestReplay(t *testing.T) {
	t.Parallel()
	storm := replayFile("storm.jsonl")
	for name, args := range map[string][]string{
		"gate":   {"-f", simulateFile("gate.yaml"), "--against", simulateFile("storm.yaml"), storm},
		"budget": {"-f", simulateFile("storm.yaml") + "," + simulateFile("budget.yaml"), "--against", simulateFile("storm.yaml"), storm},
		"same":   {"-f", simulateFile("storm.yaml"), "--against", simulateFile("storm.yaml"), storm},
		"wide":   {"-f", simulateFile("escalation.yaml"), "--against", simulateFile("storm.yaml"), "-o", "wide", storm},
		"alone":  {"--kubeconfig=/does/not/exist", "-f", simulateFile("gate.yaml"), storm},
	} {
		out, errOut, code := replayIn(t.Context(), "", args...)
		require.Empty(t, errOut, name)
		require.Equal(t, ExitOK, code, name)
		requireGolden(t, replayFile(name+".txt"), out)
	}
}

// TestReplayJSON: programs get the same, with all of both summaries.
func TestReplayJSON(t *testing.T) {
	t.Parallel()
	out, errOut, code := replayIn(t.Context(), "", "-f", simulateFile("gate.yaml"), "--against", simulateFile("storm.yaml"), "-o", "json", replayFile("storm.jsonl"))
	require.Equal(t, ExitOK, code, errOut)
	var replay simulation.Replay
	require.NoError(t, json.Unmarshal([]byte(out), &replay))
	require.Equal(t, simulation.Recorded{File: replayFile("storm.jsonl"), Nodes: 9, Changes: 11, Gaps: 1}, replay.Recorded)
	require.Equal(t, []int{4, 2}, []int{replay.Comparison.Summary.Remediations, replay.Summary.Remediations})
	require.Equal(t, 2, replay.Comparison.Count(simulation.NotStarted))
	require.Equal(t, []string{"workers"}, replay.Checks)
	require.NotEmpty(t, replay.Episodes)
	require.NotEmpty(t, replay.Timeline)
}

// TestReplayDamaged: a recording from standard input that was cut off is played, and that is said.
func TestReplayDamaged(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(replayFile("storm.jsonl"))
	require.NoError(t, err)
	out, errOut, code := replayIn(t.Context(), string(whole[:len(whole)-10]), "-f", simulateFile("gate.yaml"), "--against", simulateFile("gate.yaml"), "-")
	require.Equal(t, ExitOK, code, errOut)
	require.Contains(t, out, "The last line is cut off, and was left out: the recording ends early.\n")
	require.Contains(t, out, "The recording is partial: nothing was recorded in 1 interval.\n")
	require.Contains(t, out, "No difference: both remediations would have started at the same times.\n")
}

// TestReplayErrors: each says what to do, and nothing else is printed.
func TestReplayErrors(t *testing.T) {
	t.Parallel()
	storm, gate := replayFile("storm.jsonl"), simulateFile("gate.yaml")
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}}"
	for name, tc := range map[string]struct {
		input string
		args  []string
		want  string
	}{
		"no recording":       {"", []string{"-f", gate}, "Name one recording: kubectl nhc replay -f FILE RECORDING."},
		"two recordings":     {"", []string{"-f", gate, storm, storm}, "Name one recording: kubectl nhc replay -f FILE RECORDING."},
		"no such recording":  {"", []string{"-f", gate, "missing.jsonl"}, "Cannot read the recording: open missing.jsonl: no such file or directory."},
		"a directory":        {"", []string{"-f", gate, "testdata"}, "testdata cannot be read: read testdata: is a directory."},
		"no recording in it": {"", []string{"-f", gate, gate}, gate + " is no recording: make one with kubectl nhc record -o FILE, with --from for what kubectl get nodes -w -o json has printed."},
		"nothing in it":      {"", []string{"-f", gate, "-"}, "standard input is empty: make a recording with kubectl nhc record -o FILE."},
		"no check":           {pod, []string{"-f", "-", storm}, "There is no NodeHealthCheck or RemediationBudget in standard input: name a file that has some."},
		"no check against":   {pod, []string{"-f", gate, "--against", "-", storm}, "There is no NodeHealthCheck or RemediationBudget in standard input: name a file that has some."},
		"a strange check":    {"{", []string{"-f", "-", storm}, "standard input: It is neither YAML nor JSON: "},
		"a refused check":    {strings.Replace(goodCheck, "maxUnhealthy: 1", "maxUnhealthy: -1", 1), []string{"-f", "-", storm}, "standard input: NodeHealthCheck good would be refused: spec.maxUnhealthy: "},
		"only budgets":       {"", []string{"-f", simulateFile("budget.yaml"), "--against", gate, storm}, "There is no NodeHealthCheck to replay: give one with --filename."},
		"nothing to compare": {"", []string{"--against", gate, storm}, "Give the files to compare with those of --against: kubectl nhc replay -f FILE --against FILE RECORDING."},
		"one input":          {"", []string{"-f", "-", "-"}, "Standard input can be read once only: give a file for all but one of RECORDING, --filename and --against."},
		"no cluster":         {"", []string{"--kubeconfig=/does/not/exist", storm}, "Cannot use the kubeconfig: stat /does/not/exist: no such file or directory."},
		"budgets alone":      {"", []string{"--kubeconfig=/does/not/exist", "-f", simulateFile("budget.yaml"), storm}, "Cannot use the kubeconfig: stat /does/not/exist: no such file or directory."},
		"no such format":     {"", []string{"-o", "name", storm}, `There is no output format "name" here: use one of table, wide, json, yaml.`},
	} {
		out, errOut, code := replayIn(t.Context(), tc.input, tc.args...)
		require.Contains(t, errOut, "Error: "+tc.want, name)
		require.Empty(t, out, name)
		require.Equal(t, ExitError, code, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, errOut, code := replayIn(ctx, "", "-f", gate, "--against", gate, storm)
	require.Equal(t, "Error: Interrupted.\n", errOut)
	require.Equal(t, ExitError, code)
}

// TestReplayAgainstCluster: the files take the place of what the cluster has, whose status is of another
// time; what may not be read is said.
func TestReplayAgainstCluster(t *testing.T) {
	t.Parallel()
	const stored = `{"kind":"NodeHealthCheckList","apiVersion":"remediation.medik8s.io/v1alpha1","metadata":{},"items":[{"metadata":{"name":"workers"},
		"spec":{"maxUnhealthy":9,"selector":{},"remediationTemplate":{"apiVersion":"a.example/v1","kind":"ATemplate","name":"a"},"unhealthyConditions":[{"type":"Ready","status":"Unknown","duration":"300s"}]},
		"status":{"unhealthyNodes":[{"name":"b-2","remediations":[{"resource":{"apiVersion":"a.example/v1","kind":"A","name":"b-2","uid":"1"},"started":"2026-01-01T00:00:00Z"}]}]}}]}`
	const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"User \"a\" cannot list resource \"remediationbudgets\""}`
	const group = "/apis/remediation.medik8s.io/v1alpha1"
	lists := map[string]string{
		group + "/nodehealthchecks": stored, group + "/remediationbudgets": forbidden,
		group: `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"remediation.medik8s.io/v1alpha1","resources":[{"name":"remediationbudgets","kind":"RemediationBudget","verbs":["list"]}]}`,
	}
	server := apiServer(t, lists)
	out, errOut, code := runAgainst(t, server, "replay", "-f", simulateFile("gate.yaml"), replayFile("storm.jsonl"))
	require.Equal(t, ExitOK, code, errOut)
	require.Contains(t, out, "2 of 4 remediations would not have started.\n")
	require.Contains(t, out, "Differences from the cluster\n")
	require.Contains(t, out, "This view is partial, without remediationbudgets. You may not list remediationbudgets: ask for the ClusterRole nhc-view.\n")
	require.NotContains(t, out, "b-2")
	out, errOut, code = runAgainst(t, server, "replay", replayFile("storm.jsonl"))
	require.Equal(t, ExitOK, code, errOut)
	require.Contains(t, out, "the cluster    4          4")
	lists[group+"/nodehealthchecks"] = `{"kind":"NodeHealthCheckList","apiVersion":"remediation.medik8s.io/v1alpha1","metadata":{},"items":[]}`
	out, _, code = runAgainst(t, server, "replay", "-f", simulateFile("gate.yaml"), replayFile("storm.jsonl"))
	require.Equal(t, ExitOK, code)
	require.Contains(t, out, "There is nothing to compare with: no NodeHealthCheck in the cluster. Give some with --against.\n")
	_, errOut, code = runAgainst(t, server, "replay", replayFile("storm.jsonl"))
	require.Equal(t, "Error: There is no NodeHealthCheck to replay: give one with --filename.\n", errOut)
	require.Equal(t, ExitError, code)
}
