// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
)

// nodeServer serves two Nodes, and then the events of a watch.
type nodeServer struct {
	*httptest.Server
	// events are sent to the watch, which ends with an empty one.
	events chan string
	mu     sync.Mutex
	// refuses is the status of all answers, zero if there is none.
	refuses int
	// forbids is a verb.
	forbids string
}

func newNodeServer(t *testing.T) *nodeServer {
	t.Helper()
	s := &nodeServer{events: make(chan string)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *nodeServer) set(refuses int, forbids string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses, s.forbids = refuses, forbids
}

// ServeHTTP implements [http.Handler].
func (s *nodeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refuses, forbids := s.refuses, s.forbids
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	verb := "list"
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	status := func(code int, reason, message string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
	}
	switch {
	case refuses != 0:
		status(refuses, map[int]string{http.StatusUnauthorized: "Unauthorized"}[refuses], "it is broken")
	case r.URL.Query().Get("sendInitialEvents") != "":
		status(http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is unknown")
	case verb == forbids:
		status(http.StatusForbidden, "Forbidden", `User "a" cannot `+verb+` resource "nodes"`)
	case verb == "list":
		fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s,%s]}`, nodeText("a", "True"), nodeText("b", "True"))
	default:
		w.(http.Flusher).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case event := <-s.events:
				if event == "" {
					return
				}
				fmt.Fprintln(w, event)
				w.(http.Flusher).Flush()
			}
		}
	}
}

func nodeText(name, ready string) string {
	return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":%q,"uid":"1","resourceVersion":"2","creationTimestamp":"2026-01-01T00:00:00Z"},"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, name, ready)
}

func event(kind, node string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, node) }

// recordedBy runs record until a function returns, and returns what it has said.
func recordedBy(t *testing.T, s *nodeServer, during func(said func(string)), args ...string) (errOut string, code int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	said := &syncedBuffer{}
	environment := Environment{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: said}, Now: time.Now, Getenv: func(string) string { return "" },
	}
	done := make(chan int, 1)
	go func() { done <- Run(ctx, environment, append([]string{"record", "--server=" + s.URL}, args...)) }()
	during(func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(said.String(), text) }, 20*time.Second, 5*time.Millisecond, text)
	})
	stop()
	code = <-done
	return said.String(), code
}

// syncedBuffer is a buffer that is read while it is written.
type syncedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(text)
}

func (b *syncedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func readRecorded(t *testing.T, name string) *simulation.Recording {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	recorded, err := simulation.Read(file)
	require.NoError(t, err)
	return recorded
}

// entries returns the recorded entries, in short.
func entries(recorded *simulation.Recording) (lines []string) {
	for i := range recorded.Entries {
		switch entry := &recorded.Entries[i]; {
		case !entry.Gap.IsZero():
			lines = append(lines, "gap")
		case entry.Deleted:
			lines = append(lines, entry.Node+" deleted")
		case entry.Node != "":
			lines = append(lines, fmt.Sprintf("%s %s", entry.Node, entry.Conditions[0].Status))
		default:
			lines = append(lines, "mark")
		}
	}
	return lines
}

// TestRecord: changes are recorded until the recording is stopped, which ends it properly. What cannot be
// seen is a gap.
func TestRecord(t *testing.T) {
	t.Parallel()
	s := newNodeServer(t)
	file := filepath.Join(t.TempDir(), "storm.jsonl")
	errOut, code := recordedBy(t, s, func(said func(string)) {
		said("Recording 2 nodes to " + file + ". Ctrl-C stops it.\n")
		s.events <- event("MODIFIED", nodeText("a", "Unknown"))
		s.events <- event("MODIFIED", nodeText("a", "Unknown"))
		s.events <- event("DELETED", nodeText("b", "True"))
		s.set(http.StatusInternalServerError, "")
		s.events <- ""
		said("Warning: nothing is recorded for now. ")
		s.set(0, "")
		said("Warning: nothing was recorded for ")
		s.events <- event("ADDED", nodeText("c", "True"))
		s.events <- event("BOOKMARK", nodeText("", "True"))
		require.Eventually(t, func() bool {
			written, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(written), `"node":"c"`)
		}, 20*time.Second, 5*time.Millisecond)
	}, "-o", file)
	require.Equal(t, ExitOK, code, errOut)
	require.Regexp(t, `Recorded \d changes of \d nodes in \d+s, \d+ bytes, to `, errOut)
	recorded := entries(readRecorded(t, file))
	require.Equal(t, []string{"a True", "b True", "a Unknown", "b deleted", "gap"}, recorded[:5])
	require.Equal(t, []string{"c True", "mark"}, recorded[len(recorded)-2:])
	errOut, code = recordedBy(t, s, func(func(string)) {}, "-o", file)
	require.Equal(t, ExitError, code)
	require.Contains(t, errOut, "Error: ")
}

// TestRecordFor: a recording stops after a time by itself, and never overwrites a file.
func TestRecordFor(t *testing.T) {
	t.Parallel()
	s := newNodeServer(t)
	file := filepath.Join(t.TempDir(), "short.jsonl")
	_, errOut, code := runAgainst(t, s.URL, "record", "-o", file, "--for", "1ms")
	require.Equal(t, ExitOK, code, errOut)
	require.Regexp(t, `Recorded 0 changes of 2 nodes in [01]s, `, errOut)
	require.Equal(t, []string{"a True", "b True", "mark"}, entries(readRecorded(t, file)))
	_, errOut, code = runAgainst(t, s.URL, "record", "-o", file)
	require.Equal(t, "Error: There is a file "+file+" already: choose another name, or remove it.\n", errOut)
	require.Equal(t, ExitError, code)
	out, errOut, code := runAgainst(t, s.URL, "record", "-o", "-", "--for", "1ms")
	require.Equal(t, ExitOK, code, errOut)
	require.Equal(t, 4, strings.Count(out, "\n"))
}

// TestRecordErrors: a failed recording prints one sentence, and leaves no file.
func TestRecordErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refuses int
		forbids string
		want    string
	}{
		"no list":  {0, "list", "Error: You may not list nodes: ask for the ClusterRole nhc-view.\n"},
		"broken":   {http.StatusInternalServerError, "", "Error: Cannot list nodes: it is broken.\n"},
		"no login": {http.StatusUnauthorized, "", "Error: Cannot list nodes: it is broken.\n"},
	} {
		s := newNodeServer(t)
		s.set(tc.refuses, tc.forbids)
		file := filepath.Join(t.TempDir(), "none.jsonl")
		_, errOut, code := runAgainst(t, s.URL, "record", "-o", file)
		require.Contains(t, []string{tc.want, strings.ReplaceAll(tc.want, "list", "watch")}, errOut, name)
		require.Equal(t, ExitError, code, name)
		require.NoFileExists(t, file, name)
	}
	s := newNodeServer(t)
	s.set(0, "watch")
	_, errOut, code := runAgainst(t, s.URL, "record", "-o", filepath.Join(t.TempDir(), "none.jsonl"))
	require.Contains(t, errOut, "Error: You may not watch nodes: ask for the ClusterRole nhc-view.\n")
	require.Equal(t, ExitError, code)
	s.Close()
	_, errOut, code = runAgainst(t, s.URL, "record", "-o", filepath.Join(t.TempDir(), "none.jsonl"))
	require.Contains(t, errOut, " nodes: dial tcp ")
	require.Equal(t, ExitError, code)
	for want, args := range map[string][]string{
		"Name the file to record to: kubectl nhc record -o FILE.":                       {},
		"Give a time with --for that is not negative.":                                  {"-o", "x", "--for", "-1s"},
		"Give either --from or --for: a file is converted as a whole.":                  {"-o", "x", "--from", "y", "--for", "1s"},
		"Cannot read what is to be converted: open missing: no such file or directory.": {"-o", "x", "--from", "missing"},
		"Cannot use the kubeconfig: stat /does/not/exist: no such file or directory.":   {"-o", "x", "--kubeconfig=/does/not/exist"},
		"Cannot create the recording: open missing/x: no such file or directory.":       {"-o", "missing/x", "--from", replayFile("storm.jsonl")},
	} {
		_, errOut, code := run(t, append([]string{"record"}, args...)...)
		require.Contains(t, errOut, "Error: "+want)
		require.Equal(t, ExitError, code, want)
	}
}

// TestRecordLostAtEnd: a recording that is stopped while nothing is heard says so.
func TestRecordLostAtEnd(t *testing.T) {
	t.Parallel()
	s := newNodeServer(t)
	file := filepath.Join(t.TempDir(), "lost.jsonl")
	errOut, code := recordedBy(t, s, func(said func(string)) {
		said("Recording 2 nodes")
		s.set(http.StatusInternalServerError, "")
		s.events <- ""
		said("Warning: nothing is recorded for now. ")
	}, "-o", file)
	require.Regexp(t, `Error: Nothing was recorded for the last \d+s\. Cannot watch nodes: .*it is broken.*\n$`, errOut)
	require.Equal(t, ExitError, code)
	require.Equal(t, []string{"a True", "b True", "gap"}, entries(readRecorded(t, file)))
}

// TestRecordFrom: output of kubectl is converted. Other input leaves no file.
func TestRecordFrom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	convert := func(input, name string, args ...string) (string, int) {
		streams, in, _, errBuffer := genericiooptions.NewTestIOStreams()
		in.WriteString(input)
		environment := Environment{IOStreams: streams, Now: time.Now, Getenv: func(string) string { return "" }}
		code := Run(t.Context(), environment, append([]string{"record", "--kubeconfig=/does/not/exist", "-o", filepath.Join(dir, name)}, args...))
		return errBuffer.String(), code
	}
	errOut, code := convert("", "whole", "--from", replayFile("nodes.json"))
	require.Equal(t, ExitOK, code, errOut)
	require.Regexp(t, `^Recorded 1 change of 2 nodes, \d+ bytes, to .*whole\.\n$`, errOut)
	require.Equal(t, []string{"a True", "b True", "a Unknown"}, entries(readRecorded(t, filepath.Join(dir, "whole"))))
	errOut, code = convert(nodeText("a", "True")+nodeText("b", "True")[:50], "cut", "--from", "-")
	require.Equal(t, ExitOK, code, errOut)
	require.Contains(t, errOut, "Warning: the last object of standard input is cut off, and was left out: the recording ends early.\n")
	errOut, code = convert("NAME STATUS", "none", "--from", "-")
	require.Equal(t, "Error: standard input cannot be understood at byte 1: it is no JSON. Give what kubectl get nodes -w -o json has printed.\n", errOut)
	require.Equal(t, ExitError, code)
	require.NoFileExists(t, filepath.Join(dir, "none"))
}

// TestRecordFull: a full disk is said, with what to do about it.
func TestRecordFull(t *testing.T) {
	t.Parallel()
	s := newNodeServer(t)
	for _, args := range [][]string{{"--from", replayFile("nodes.json")}, {"--server=" + s.URL}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("this system has no device that is always full")
		}
		streams, _, _, errBuffer := genericiooptions.NewTestIOStreams()
		streams.Out = full
		code := Run(t.Context(), Environment{IOStreams: streams, Now: time.Now, Getenv: func(string) string { return "" }}, append([]string{"record", "-o", "-"}, args...))
		require.Equal(t, ExitError, code)
		require.Contains(t, errBuffer.String(), "Error: Cannot write to standard output: no space left on device. What was written before can be replayed.\n")
		require.NoError(t, full.Close())
	}
}
