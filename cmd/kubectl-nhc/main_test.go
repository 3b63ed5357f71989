// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"

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

// TestInterrupted: Ctrl-C, and the signal of a service manager, end a command properly.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	executable, err := os.Executable()
	require.NoError(t, err)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		asked := make(chan struct{}, 100)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			<-r.Context().Done()
		}))
		t.Cleanup(server.Close)
		command := exec.CommandContext(t.Context(), executable, "status", "--server="+server.URL)
		command.Env = append(os.Environ(), asPlugin+"=1", "KUBECONFIG=/does/not/exist")
		var errOut bytes.Buffer
		command.Stderr = &errOut
		require.NoError(t, command.Start())
		<-asked
		require.NoError(t, command.Process.Signal(sig))
		require.Error(t, command.Wait(), sig)
		require.Equal(t, 2, command.ProcessState.ExitCode(), sig)
		require.Equal(t, "Error: Interrupted.\n", errOut.String(), sig)
	}
}
