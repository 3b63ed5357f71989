// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
)

const goodCheck = `{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: good},
  spec: {selector: {matchLabels: {a: b}}, stormCooldownDuration: 5m, maxUnhealthy: 1, remediationTemplate: {apiVersion: a/v1, kind: ATemplate, namespace: b, name: c}}}`

// lintInput lints what standard input has.
func lintInput(t *testing.T, input string, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, in, outBuffer, errBuffer := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	environment := Environment{IOStreams: streams, Now: time.Now, Getenv: func(string) string { return "" }}
	code = Run(t.Context(), environment, append([]string{"lint", "-f", "-", "--kubeconfig=/does/not/exist"}, args...))
	return outBuffer.String(), errBuffer.String(), code
}

// TestLintExitCodes: errors are 1, advice only if that is wanted.
func TestLintExitCodes(t *testing.T) {
	t.Parallel()
	advisable := strings.Replace(goodCheck, "maxUnhealthy: 1", "maxUnhealthy: 0", 1)
	refused := strings.Replace(goodCheck, "maxUnhealthy: 1", "maxUnhealthy: -1", 1)
	for name, tc := range map[string]struct {
		input, out, errOut string
		args               []string
		code               int
	}{
		"good":                  {input: goodCheck, out: "standard input: NodeHealthCheck good: ok\n\n0 errors in 1 object.\nNo cluster was asked: what depends on nodes and templates is not checked.\n"},
		"good, and strict":      {input: goodCheck, args: []string{"--strict"}, out: "ok"},
		"advice":                {input: advisable, out: "With 0, no remediation ever begins"},
		"advice, and strict":    {input: advisable, args: []string{"--strict"}, out: "1 piece of advice", code: ExitFound, errOut: "Error: There is something to correct: 0 errors and 1 piece of advice in 1 object.\n"},
		"error":                 {input: refused, out: "maxUnhealthy must not be negative: -1", code: ExitFound, errOut: "Error: There is something to correct: 1 error in 1 object.\n"},
		"unknown field":         {input: strings.Replace(goodCheck, "maxUnhealthy: 1", "maxUnhealthy: 1, minHealth: 1", 1), out: `unknown field "spec.minHealth"`, code: ExitFound, errOut: "1 error in 1 object"},
		"another kind":          {input: "{apiVersion: v1, kind: Pod, metadata: {name: a}}", out: "standard input: skipped, there are no rules about this kind\n\nThere is nothing to lint"},
		"no object":             {input: "a: b", args: []string{"--strict"}, out: "standard input: skipped, it is no Kubernetes object, which has an apiVersion and a kind\n\nThere is nothing to lint"},
		"no YAML":               {input: "a: [", out: "It is neither YAML nor JSON: line 1", code: ExitFound, errOut: "1 error in 1 object"},
		"one of several":        {input: goodCheck + "\n---\na: [\n", out: "standard input, document 2\n", code: ExitFound, errOut: "1 error in 2 objects"},
		"a version of tomorrow": {input: strings.Replace(goodCheck, "v1alpha1", "v2", 1), out: "must be remediation.medik8s.io/v1alpha1", code: ExitFound, errOut: "1 error in 1 object"},
	} {
		out, errOut, code := lintInput(t, tc.input, append([]string{"--offline"}, tc.args...)...)
		require.Contains(t, out, tc.out, name)
		require.Contains(t, errOut, tc.errOut, name)
		require.Equal(t, tc.code, code, name)
		require.Equal(t, tc.code == ExitOK, errOut == "", name)
	}
}

// TestLintWithoutCluster: lint names the checks that need a cluster. That is no error.
func TestLintWithoutCluster(t *testing.T) {
	t.Parallel()
	out, errOut, code := lintInput(t, goodCheck)
	require.Contains(t, out, "NodeHealthCheck good: ok\n")
	require.Contains(t, out, "This view is partial, without the cluster. Cannot use the kubeconfig: ")
	require.Empty(t, errOut)
	require.Equal(t, ExitOK, code)
	out, _, code = lintInput(t, goodCheck, "--kubeconfig=", "--server=http://127.0.0.1:1", "-o", "json")
	require.Equal(t, ExitOK, code)
	var report lint.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Missing, 1)
	require.Contains(t, report.Missing[0].Reason, "Cannot ask the cluster: ")
	require.Equal(t, []lint.Object{{Source: "standard input", Kind: "NodeHealthCheck", Name: "good", Findings: []lint.Finding{}}}, report.Objects)
}

// TestLintPartial: what may not be read of a cluster is said.
func TestLintPartial(t *testing.T) {
	t.Parallel()
	answers := map[string]struct {
		status int
		body   string
	}{
		"/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks": {http.StatusOK, `{"kind":"NodeHealthCheckList","apiVersion":"remediation.medik8s.io/v1alpha1","metadata":{},"items":[]}`},
		"/apis/nhc-controller.io/v1alpha1/remediationbudgets":    {http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"User \"a\" cannot list resource \"remediationbudgets\""}`},
		"/apis/nhc-controller.io/v1alpha1":                       {http.StatusOK, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"nhc-controller.io/v1alpha1","resources":[{"name":"remediationbudgets","kind":"RemediationBudget","verbs":["list"]}]}`},
		"/version":                                               {http.StatusOK, `{}`},
		"/api/v1/nodes":                                          {http.StatusOK, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if !known {
			answer.status, answer.body = http.StatusNotFound, "404 page not found"
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.status)
		_, _ = w.Write([]byte(answer.body))
	}))
	defer server.Close()
	out, errOut, code := runAgainst(t, server.URL, "lint")
	require.Equal(t, "There is nothing to lint: no NodeHealthCheck, MachineHealthCheck or RemediationBudget.\n"+
		"This view is partial, without remediationbudgets. You may not list remediationbudgets: ask for the ClusterRole nhc-view.\n", out)
	require.Empty(t, errOut)
	require.Equal(t, ExitOK, code)
	out, _, _ = runAgainst(t, server.URL, "lint", "-o", "json")
	require.Contains(t, out, `"objects": []`)
}

func TestLintFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"Error: Give either a NAME or --filename.\n":                                                        {"lint", "a", "-f", "b"},
		"Error: Give files with --filename: what is in the cluster cannot be read offline.\n":               {"lint", "--offline"},
		"Error: Cannot read what is to be checked: stat /does/not/exist.yaml: no such file or directory.\n": {"lint", "-f", "/does/not/exist.yaml"},
		"Error: Cannot use the kubeconfig: stat /does/not/exist: no such file or directory.\n":              {"lint", "a"},
	} {
		out, errOut, code := run(t, args...)
		require.Equal(t, want, errOut, args)
		require.Empty(t, out, args)
		require.Equal(t, ExitError, code, args)
	}
}

// TestLintOurObjects: our samples are free of advice. The demos are in a hurry, and accepted.
func TestLintOurObjects(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	out, errOut, code := run(t, "lint", "-R", "--offline", "--strict", "-f", filepath.Join(root, "manifests", "samples"))
	require.Equal(t, ExitOK, code, "%s%s", out, errOut)
	require.Greater(t, strings.Count(out, ": ok\n"), 10)
	out, errOut, code = run(t, "lint", "--offline", "-f", filepath.Join(root, "test", "remediator", "manifests"))
	require.Equal(t, ExitOK, code, "%s%s", out, errOut)
	require.Contains(t, out, "0 errors")
}

// TestLintHostileText: what a file says does not reach the terminal as it is.
func TestLintHostileText(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: \"\\e[2J\"}\nspec: {mode: \"\\e]0;x\\a\"}\n"), 0o600))
	out, errOut, code := run(t, "lint", "--offline", "-f", path)
	require.Equal(t, ExitFound, code)
	require.NotContains(t, out+errOut, "\x1b")
	require.Contains(t, out, `"DryRun"`)
}
