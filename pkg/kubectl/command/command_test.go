// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// run runs a command without a cluster.
func run(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, _, outBuffer, errBuffer := genericiooptions.NewTestIOStreams()
	environment := Environment{IOStreams: streams, Now: time.Now, Getenv: func(string) string { return "" }}
	code = Run(t.Context(), environment, append([]string{"--kubeconfig=/does/not/exist"}, args...))
	return outBuffer.String(), errBuffer.String(), code
}

// TestErrors: one sentence, and exit code 2.
func TestErrors(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`unknown command "statsu" for "kubectl nhc"  Did you mean this?  status `: {"statsu"},
		"unknown flag: --wach": {"status", "--wach"},
		"Say why, with --reason: others see it, and resume by it.":                                 {"pause", "a"},
		"Name health checks or nodes (node/NAME), or give one of --selector, --all and --cluster.": {"resume"},
		"Only NodeHealthChecks can be aborted: a Machine that is being deleted stays so.":          {"abort", "ns/m", "--reason=x"},
		`There is no dry run "client": use --dry-run=server.`:                                      {"pause", "a", "--dry-run=client", "--reason=x"},
		"Name a Node: kubectl get nodes lists what there is.":                                      {"confirm-healthy"},
		"Name one Node at most, not 2: kubectl get nodes lists what there is.":                     {"explain", "w", "x"},
		"Name one health check or budget at most, not 2: kubectl nhc status lists what there is.":  {"status", "a", "b"},
		`unknown command "workers" for "kubectl nhc check"`:                                        {"check", "workers"},
		"Give a --port from 1 to 65535, or leave it out for any that is free.":                     {"dashboard", "--port=99999"},
		"Cannot use the kubeconfig: stat /does/not/exist: no such file or directory.":              {"status"},
	} {
		want = "Error: " + want + "\n"
		out, errOut, code := run(t, args...)
		require.Equal(t, want, errOut, args)
		require.Empty(t, out, args)
		require.Equal(t, ExitError, code, args)
	}
}

// TestHelp: every command has an example or is explained, and a group.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range New(Environment{}).Commands() {
		if command.Name() == "version" {
			continue
		}
		require.NotEmpty(t, command.Long, command.Name())
		require.NotEmpty(t, command.GroupID, command.Name())
	}
	out, _, code := run(t)
	require.Contains(t, out, "confirm-healthy")
	require.Equal(t, ExitOK, code)
	for _, command := range []string{"", "status", "pause"} {
		out, _, _ = run(t, command, "--help")
		require.NotContains(t, out, "--context string", "only the flags of the command itself")
	}
	require.Contains(t, out, "--selector")
}

// TestOutput: an answer for programs has a version and a kind, in each format of kubectl.
func TestOutput(t *testing.T) {
	t.Parallel()
	out, _, _ := run(t, "version", "-o", "json")
	require.Contains(t, out, `"apiVersion": "kubectl.nhc-controller.io/v1alpha1"`)
	out, _, _ = run(t, "version", "-o", "jsonpath={.kind}")
	require.Equal(t, "Version", out)
	_, errOut, code := run(t, "version", "-o", "xml")
	require.Contains(t, errOut, `output format "xml", allowed formats are`)
	require.Equal(t, ExitError, code)
	_, errOut, _ = run(t, "version", "-o", "name")
	require.Contains(t, errOut, `output format "name", allowed formats are`)
}

// TestAboutMachine: what explain takes for a node, and what for a Machine.
func TestAboutMachine(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{"false n": {"n"}, "false no/n": {"no/n"}, "false x": {"node", "x"}, "true ns/m": {"ns/m"}, "true m": {"machine", "m"}} {
		machine, rest := aboutMachine(args)
		require.Equal(t, want, fmt.Sprint(machine, " ", rest[0]))
	}
}

// TestAPIServer: answers that no cluster should give.
func TestAPIServer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"no CRD":        {http.StatusNotFound, "404 page not found", "Error: This cluster has no nodehealthchecks: install the CustomResourceDefinitions of nhc-controller.\n"},
		"login":         {http.StatusUnauthorized, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`, "Error: Cannot list nodehealthchecks: "},
		"no JSON":       {http.StatusOK, "<html>\x1b[2J", "Error: Cannot list nodehealthchecks: "},
		"another shape": {http.StatusOK, `{"kind":"NodeHealthCheckList","apiVersion":"remediation.medik8s.io/v1alpha1","items":[{"spec":"none"}]}`, "Error: Cannot list nodehealthchecks: "},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tc.status)
			_, _ = w.Write([]byte(tc.body))
		}))
		out, errOut, code := runAgainst(t, server.URL, "status")
		server.Close()
		require.Contains(t, errOut, tc.want, name)
		require.NotContains(t, errOut, "\x1b", name)
		require.Equal(t, 1, bytes.Count([]byte(errOut), []byte("\n")), "%s: one line: %s", name, errOut)
		require.Empty(t, out, name)
		require.Equal(t, ExitError, code, name)
	}
}

// TestCheckExits: what a person without permissions cannot look at is no problem, and not in order either.
func TestCheckExits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		message, sentence string
		code              int
	}{
		"no permission": {`User \"ann\" cannot list resource \"x\"`, "Error: Nothing is wrong in what could be seen: 6 parts need an admin, 0 could not be read.\n", ExitError},
		"denied":        {"no NodeHealthChecks here", "Error: The installation is not in order: 1 problem.\n", ExitFound},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/version" {
				_, _ = w.Write([]byte(`{"gitVersion":"v1.37.2"}`))
				return
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"` + tc.message + `"}`))
		}))
		out, errOut, code := runAgainst(t, server.URL, "check")
		server.Close()
		require.Equal(t, tc.sentence, errOut, "%s: %s", name, out)
		require.Equal(t, tc.code, code, name)
		require.Contains(t, out, "v1.37.2", "it shows what it could see")
	}
}

func runAgainst(t *testing.T, server string, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, _, outBuffer, errBuffer := genericiooptions.NewTestIOStreams()
	environment := Environment{IOStreams: streams, Now: time.Now, Getenv: func(string) string { return "" }}
	code = Run(t.Context(), environment, append([]string{"--server=" + server}, args...))
	return outBuffer.String(), errBuffer.String(), code
}

func TestExplainSeveral(t *testing.T) {
	t.Parallel()
	err := errors.Join(&cluster.Error{Sentence: "One."}, errors.New("two"))
	require.Equal(t, []string{"One.", "two"}, explain(err))
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	names := []string{"workers", "gpu", "control-plane", "workers-eu", "node-11", "node-12"}
	for name, want := range map[string]string{
		"worker": "did you mean workers or workers-eu?",
		"node-1": "did you mean node-11 or node-12?",
		"wokers": "kubectl get x lists what there is.",
		"":       "did you mean workers or gpu or control-plane?",
	} {
		require.EqualError(t, notFound("X", name, names, "kubectl get x"), fmt.Sprintf("There is no X %q: %s", name, want))
	}
}

func TestParseAge(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute} {
		age, valid := view.ParseAge(text)
		require.True(t, valid)
		require.Equal(t, want, age)
	}
	for _, text := range []string{"", "d", "-1h", "1.5d", "99999d", "soon"} {
		_, valid := view.ParseAge(text)
		require.False(t, valid, text)
	}
}

// TestColours: only on a terminal.
func TestColours(t *testing.T) {
	t.Parallel()
	r := &root{Environment: Environment{IOStreams: genericiooptions.NewTestIOStreamsDiscard(), Getenv: func(string) string { return "" }}}
	require.Zero(t, r.terminalOptions())
}

// TestCompletionWithoutCluster: nothing is completed, and nothing is printed between the words of a shell.
func TestCompletionWithoutCluster(t *testing.T) {
	t.Parallel()
	out, _, code := run(t, cobra.ShellCompNoDescRequestCmd, "status", "")
	require.Equal(t, ":4\n", out)
	require.Equal(t, ExitOK, code)
}
