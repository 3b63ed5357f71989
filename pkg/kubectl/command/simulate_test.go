// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
)

var update = flag.Bool("update", false, "write the golden files")

// requireGolden compares an output with the file that has the right one.
func requireGolden(t *testing.T, path, out string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(out), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test -update writes it")
	require.Equal(t, string(want), out, path)
}

// simulate simulates with these arguments, in which a name of a file is one of testdata/simulate. No
// cluster can be asked.
func simulate(t *testing.T, input string, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, in, outBuffer, errBuffer := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	start := time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC)
	environment := Environment{IOStreams: streams, Now: func() time.Time { return start }, Getenv: func(string) string { return "" }}
	all := []string{"simulate", "--kubeconfig=/does/not/exist"}
	for _, arg := range args {
		if strings.HasSuffix(arg, ".yaml") {
			arg = filepath.Join("testdata", "simulate", arg)
		}
		all = append(all, arg)
	}
	code = Run(t.Context(), environment, all)
	return outBuffer.String(), errBuffer.String(), code
}

// TestSimulate: what the same nodes come to under different rules.
func TestSimulate(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"nothing":    {"-f", "gate.yaml"},
		"gate":       {"-f", "gate.yaml", "--fail", "a-1,a-2,a-3@2m", "--recover", "a-3@30m"},
		"storm":      {"-f", "storm.yaml", "--fail", "a-1,a-2,a-3,b-1,b-2", "--recover", "b-1,b-2@12m"},
		"repaired":   {"-f", "escalation.yaml", "--fail", "a-1", "--fail", "b-1@1m", "--repair-after", "4m"},
		"escalation": {"-f", "escalation.yaml", "--fail", "a-1", "--fail", "b-1@1m", "--repair-after", "8m"},
		"exhausted":  {"-f", "escalation.yaml", "--fail", "a-1", "--repair-after", "0"},
		"slot":       {"-f", "controlplane.yaml", "--fail", "control-1,control-2"},
		"budgets":    {"-f", "gate.yaml", "-f", "budget.yaml", "--fail", "a-1,b-1", "--fail", "c-1,c-2@1h", "--recover", "c-2@90m", "--for", "3h"},
		"several":    {"-f", "storm.yaml", "-f", "controlplane.yaml", "--fail", "a-1,control-1", "--fail", "control-2@20m"},
	} {
		out, errOut, code := simulate(t, "", append(args, "--nodes", "nodes.yaml")...)
		require.Empty(t, errOut, name)
		require.Equal(t, ExitOK, code, name)
		requireGolden(t, filepath.Join("testdata", "simulate", name+".txt"), out)
	}
}

// TestSimulateJSON: programs get the same.
func TestSimulateJSON(t *testing.T) {
	t.Parallel()
	out, _, code := simulate(t, "", "-f", "gate.yaml", "--nodes", "nodes.yaml", "--fail", "a-1,a-2", "-o", "json")
	require.Equal(t, ExitOK, code)
	var result simulation.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Equal(t, []string{"workers"}, result.Checks)
	require.Equal(t, simulation.Line{Check: "workers", What: simulation.Begins, Why: "SelfNodeRemediationTemplate medik8s/automatic", Nodes: []string{"a-1", "a-2"}, After: result.Timeline[1].After}, result.Timeline[2])
	require.Equal(t, 2, result.Summary.MostAtATime)
	out, _, code = simulate(t, "", "-f", "gate.yaml", "--nodes", "nodes.yaml", "-o", "yaml")
	require.Equal(t, ExitOK, code)
	require.Contains(t, out, "timeline: []\n")
}

// TestSimulateErrors: each names the field and the rule, or the flag, and nothing else is printed.
func TestSimulateErrors(t *testing.T) {
	t.Parallel()
	const node = "{apiVersion: v1, kind: Node, metadata: {name: a}}"
	refused := strings.Replace(goodCheck, "maxUnhealthy: 1", "maxUnhealthy: -1", 1)
	for name, tc := range map[string]struct {
		input string
		args  []string
		want  string
	}{
		"what admission refuses": {refused, []string{"-f", "-", "--nodes", "nodes.yaml"}, "standard input: NodeHealthCheck good is refused: spec.maxUnhealthy: Invalid value: maxUnhealthy must not be negative: -1."},
		"an unknown field": {
			strings.Replace(goodCheck, "maxUnhealthy: 1", "maxUnhealthy: 1, minHealth: 1", 1), []string{"-f", "-", "--nodes", "nodes.yaml"},
			`standard input: NodeHealthCheck good is refused: spec.minHealth: unknown field "spec.minHealth".`,
		},
		"two objects":       {refused + "\n---\na: [", []string{"-f", "-", "--nodes", "nodes.yaml"}, "standard input, document 2 is refused: It is neither YAML nor JSON: "},
		"no check":          {"{apiVersion: v1, kind: Pod, metadata: {name: a}}", []string{"-f", "-", "--nodes", "nodes.yaml"}, "There is no NodeHealthCheck of remediation.medik8s.io/v1alpha1 to simulate. Skipped, because only NodeHealthChecks and RemediationBudgets are simulated: standard input."},
		"another group":     {"{apiVersion: machine.openshift.io/v1beta1, kind: NodeHealthCheck, metadata: {name: a}}", []string{"-f", "-", "--nodes", "nodes.yaml"}, `standard input: NodeHealthCheck a is refused: apiVersion: NodeHealthCheck is remediation.medik8s.io/v1alpha1, not "machine.openshift.io/v1beta1".`},
		"no file":           {"", []string{"-f", "missing.yaml", "--nodes", "nodes.yaml"}, "Cannot read what is to be checked: stat testdata/simulate/missing.yaml: no such file or directory."},
		"no nodes":          {"", []string{"-f", "gate.yaml", "--nodes", "missing.yaml"}, "Cannot read the nodes: stat testdata/simulate/missing.yaml: no such file or directory."},
		"other nodes":       {"", []string{"-f", "gate.yaml", "--nodes", "gate.yaml"}, "testdata/simulate/gate.yaml: there is a NodeHealthCheck workers. Give Nodes, as kubectl get nodes -o yaml prints them."},
		"nodes of no kind":  {"a: b", []string{"-f", "gate.yaml", "--nodes", "-"}, "standard input: it is no Kubernetes object, which has an apiVersion and a kind. Give Nodes, as kubectl get nodes -o yaml prints them."},
		"the same node":     {node + "\n---\n" + node, []string{"-f", "gate.yaml", "--nodes", "-"}, `standard input: each Node needs a name of its own, and one has "a".`},
		"a strange node":    {strings.Replace(node, "}}", "}, status: 3}", 1), []string{"-f", "gate.yaml", "--nodes", "-"}, "standard input: Node a cannot be understood: "},
		"no such node":      {"", []string{"-f", "gate.yaml", "--nodes", "nodes.yaml", "--fail", "a"}, `There is no Node "a": did you mean a-1 or a-2 or a-3?`},
		"no such node, too": {"", []string{"-f", "gate.yaml", "--nodes", "nodes.yaml", "--recover", "x"}, `There is no Node "x": --nodes testdata/simulate/nodes.yaml lists what there is.`},
		"no time":           {"", []string{"-f", "gate.yaml", "--nodes", "nodes.yaml", "--fail", "a-1@soon"}, `--fail a-1@soon: "soon" is no time, such as 90s or 2m30s.`},
		"nothing to fail":   {"", []string{"-f", "gate.yaml", "--nodes", "nodes.yaml", "--fail", "@5m"}, "--fail @5m: name a node, such as node-3 or node-3,node-4@2m."},
		"no duration":       {"", []string{"-f", "gate.yaml", "--nodes", "nodes.yaml", "--for", "0"}, "Give a time with --for that is positive, and at most 168h0m0s."},
		"a negative repair": {"", []string{"-f", "gate.yaml", "--nodes", "nodes.yaml", "--repair-after", "-1s"}, "Give a time with --repair-after that is not negative."},
		"one input":         {"", []string{"-f", "-", "--nodes", "-"}, "Standard input can be read once only: give files for all but one of --filename, --nodes and --replay."},
		"no cluster":        {"", []string{"-f", "gate.yaml"}, "Cannot use the kubeconfig: stat /does/not/exist: no such file or directory."},
	} {
		out, errOut, code := simulate(t, tc.input, tc.args...)
		require.Contains(t, errOut, "Error: "+tc.want, name)
		require.Empty(t, out, name)
		require.Equal(t, ExitError, code, name)
	}
}

// apiServer answers lists of these paths, and nothing else.
func apiServer(t *testing.T, lists map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, served := lists[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !served {
			w.WriteHeader(http.StatusNotFound)
			list = "404 page not found"
		}
		if strings.Contains(list, `"code":403`) {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(list))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const nodeList = `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[
	{"metadata":{"name":"a"},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}},
	{"metadata":{"name":"b"},"status":{"conditions":[{"type":"Ready","status":"Unknown","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}]}`

// TestSimulateWithoutInstallation: Nodes are enough.
func TestSimulateWithoutInstallation(t *testing.T) {
	t.Parallel()
	server := apiServer(t, map[string]string{"/api/v1/nodes": nodeList})
	check := filepath.Join("testdata", "simulate", "gate.yaml")
	out, errOut, code := runAgainst(t, server, "simulate", "-f", check)
	require.Equal(t, ExitOK, code, errOut)
	require.Contains(t, out, "remediation begins")
	_, errOut, code = runAgainst(t, server, "simulate")
	require.Equal(t, "Error: There is no NodeHealthCheck to simulate: give one with --filename.\n", errOut)
	require.Equal(t, ExitError, code)
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"User \"a\" cannot list resource \"nodes\""}`))
	}))
	defer denied.Close()
	_, errOut, _ = runAgainst(t, denied.URL, "simulate", "-f", check)
	require.Contains(t, errOut, "ask for the ClusterRole nhc-view.\n")
}

// TestSimulateStored: a file replaces the stored object, and its remediations go on. The output names
// kinds that may not be read.
func TestSimulateStored(t *testing.T) {
	t.Parallel()
	const stored = `{"kind":"NodeHealthCheckList","apiVersion":"remediation.medik8s.io/v1alpha1","metadata":{},"items":[
		{"metadata":{"name":"workers"},"spec":{"maxUnhealthy":1,"selector":{"matchLabels":{"a":"b"}}},
		 "status":{"unhealthyNodes":[{"name":"b","remediations":[{"resource":{"apiVersion":"self-node-remediation.medik8s.io/v1alpha1","kind":"SelfNodeRemediation","namespace":"medik8s","name":"b","uid":"1"},"started":"2026-01-01T00:00:00Z","templateName":"automatic"}]}]}}]}`
	const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"User \"a\" cannot list resource \"remediationbudgets\""}`
	lists := map[string]string{
		"/api/v1/nodes": nodeList,
		"/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks": stored,
		"/apis/nhc-controller.io/v1alpha1/remediationbudgets":    forbidden,
		"/apis/nhc-controller.io/v1alpha1":                       `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"nhc-controller.io/v1alpha1","resources":[{"name":"remediationbudgets","kind":"RemediationBudget","verbs":["list"]}]}`,
	}
	out, errOut, code := runAgainst(t, apiServer(t, lists), "simulate", "-f", filepath.Join("testdata", "simulate", "gate.yaml"))
	require.Equal(t, ExitOK, code, errOut)
	require.Contains(t, out, "remediation runs")
	require.NotContains(t, out, "remediation begins")
	require.Contains(t, out, "2 selected nodes and NodeHealthCheck workers.\n")
	require.Contains(t, out, "This view is partial, without remediationbudgets. You may not list remediationbudgets: ask for the ClusterRole nhc-view.\n")
	lists["/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"] = strings.ReplaceAll(forbidden, "remediationbudgets", "nodehealthchecks")
	lists["/apis/remediation.medik8s.io/v1alpha1"] = strings.NewReplacer("nhc-controller.io", "remediation.medik8s.io", "remediationbudgets", "nodehealthchecks", "RemediationBudget", "NodeHealthCheck").
		Replace(lists["/apis/nhc-controller.io/v1alpha1"])
	_, errOut, code = runAgainst(t, apiServer(t, lists), "simulate")
	require.Equal(t, "Error: You may not list nodehealthchecks: ask for the ClusterRole nhc-view.\n", errOut)
	require.Equal(t, ExitError, code)
}

// TestSimulateInterrupted: Ctrl-C ends a long simulation.
func TestSimulateInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	streams, _, outBuffer, errBuffer := genericiooptions.NewTestIOStreams()
	environment := Environment{IOStreams: streams, Now: time.Now, Getenv: func(string) string { return "" }}
	code := Run(ctx, environment, []string{"simulate", "-f", simulateFile("gate.yaml"), "--nodes", simulateFile("nodes.yaml")})
	require.Equal(t, ExitError, code)
	require.Equal(t, "Error: Interrupted.\n", errBuffer.String())
	require.Empty(t, outBuffer.String())
}
