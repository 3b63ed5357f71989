// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestShutdown covers the end of a process by signals, and its start (spec 22.4 to
// 22.6).
func TestShutdown(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)

	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			name := "signal-" + signal.String()
			controller := c.startController(t, name)
			eventuallyReady(t, controller)
			eventuallyLogged(t, controller, "Became leader") // The lease names it a moment before it knows.
			require.NoError(t, controller.Signal(signal))
			require.Equal(t, 0, exitCode(t, controller), controller.LogTail())
			require.Empty(t, c.leader(t), "22.6: the leader lease is released")
			requireJSON(t, controller)
		})
	}

	t.Run("start without an API server", func(t *testing.T) {
		s := newScenario(t, c)
		s.createNodes("a")
		// The kubeconfig is the one of a controller that was started before.
		require.NoError(t, c.startController(t, "early", "--leader-elect=false").Kill())
		executable, err := deploy.Executable()
		require.NoError(t, err)
		require.NoError(t, c.StopAPIServer())
		controller, err := c.StartProcess(localkube.Command{
			Name: "late", Path: executable, Env: []string{"POD_NAME=late", "DEPLOYMENT_NAMESPACE=" + deploy.Namespace},
			Args: append([]string{
				"--kubeconfig=" + filepath.Join(c.Dir(), "early.kubeconfig"), "--logging-format=json", "-v=5",
				"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0",
			}, shortLease...),
		})
		require.NoError(t, err)
		t.Cleanup(controller.Stop)
		eventuallyLogged(t, controller, "Error retrieving lease lock")
		require.Equal(t, http.StatusOK, probe(t, controller, "/readyz"), "22.5: it has no caches before it leads")
		require.Equal(t, http.StatusOK, probe(t, controller, "/livez"), "22.5")
		require.Equal(t, http.StatusOK, probe(t, controller, "/healthz"), "22.4")
		require.Equal(t, http.StatusNotFound, probe(t, controller, "/metrics"), "22.4: not for everybody")
		requireRunning(t, controller)

		require.NoError(t, c.StartAPIServer(t.Context()))
		eventuallyReady(t, controller)
		s.createNHC()
		s.fail("a")
		s.eventuallyCR("a")
		for _, line := range logged(t, controller, "Listening") {
			require.NotEqual(t, "metrics", line["server"], "22.4: 0 turns it off")
		}
		require.Empty(t, deploy.LogFaults(controller))
		requireJSON(t, controller)
	})
}

// requireJSON requires that every line of a log is a JSON object with a message.
func requireJSON(t *testing.T, p *localkube.Process) {
	t.Helper()
	log, err := os.ReadFile(p.LogPath())
	require.NoError(t, err)
	require.NotEmpty(t, log)
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // Being written.
		}
		if bytes.Contains(line, []byte("Data race detection enabled")) {
			continue // Said by klog before anybody could tell it how.
		}
		var fields struct{ Msg, Caller string }
		require.NoError(t, json.Unmarshal(line, &fields), "%s", line)
		require.NotEmpty(t, fields.Msg, "%s", line)
	}
}

// TestDryRunFlag: with the flag, no NodeHealthCheck begins anything (spec 5.5).
func TestDryRunFlag(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startController(t, "dry-run", "--leader-elect=false", "--dry-run")
	s := newScenario(t, c)
	s.createNodes("a")
	s.createNHC()
	s.fail("a")
	s.eventuallyDecided("a", v1alpha1.DecidedDryRun)
	require.Empty(t, s.crs())
}
