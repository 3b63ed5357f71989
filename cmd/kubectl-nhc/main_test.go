// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asPlugin has the executable of the tests be the plugin.
const asPlugin = "TEST_AS_KUBECTL_NHC"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		main()
	}
	os.Exit(m.Run())
}

// plugin returns a command that runs the plugin.
func plugin(t *testing.T, args ...string) (command *exec.Cmd, errOut *bytes.Buffer) {
	t.Helper()
	executable, err := os.Executable()
	require.NoError(t, err)
	command = exec.CommandContext(t.Context(), executable, args...)
	command.Env = append(os.Environ(), asPlugin+"=1", "KUBECONFIG=/does/not/exist")
	errOut = &bytes.Buffer{}
	command.Stderr = errOut
	return command, errOut
}

// TestRecordInterrupted: Ctrl-C, and the signal of a service manager, end a recording properly.
func TestRecordInterrupted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprint(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","uid":"1"}}]}`)
			return
		}
		if r.URL.Query().Get("sendInitialEvents") != "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":422,"reason":"Invalid"}`)
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		file := filepath.Join(t.TempDir(), "recording")
		command, errOut := plugin(t, "record", "--server="+server.URL, "-o", file)
		require.NoError(t, command.Start())
		var written []byte
		require.Eventually(t, func() bool {
			written, _ = os.ReadFile(file)
			return strings.Count(string(written), "\n") == 2
		}, 30*time.Second, 10*time.Millisecond)
		require.NoError(t, command.Process.Signal(sig))
		require.NoError(t, command.Wait(), "%s: %s", sig, errOut)
		written, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Regexp(t, `\n\{"time":"[^"]+"\}\n$`, string(written), sig)
		require.Contains(t, errOut.String(), "Recorded 0 changes of 1 node in ", sig)
	}
}
