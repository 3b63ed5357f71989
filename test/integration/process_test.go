// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// invoke runs the controller to its end, outside of a pod.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	executable, err := deploy.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	command := exec.CommandContext(ctx, executable, args...)
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG", "POD_NAME", "DEPLOYMENT_NAMESPACE", "LEASE_NAMESPACE"}, name)
	})
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	err = command.Run()
	require.NotNil(t, command.ProcessState, "%v", err)
	require.NoError(t, ctx.Err(), "it did not end:\n%s", errOut.String())
	return command.ProcessState.ExitCode(), out.String(), errOut.String()
}

// TestInvocation: wrong flags end the process at once, with exit code 1, before anything
// else happens (spec 22.4, 22.6).
func TestInvocation(t *testing.T) {
	t.Parallel()
	nowhere := filepath.Join(t.TempDir(), "nowhere.kubeconfig")
	require.NoError(t, localkube.WriteKubeconfig(nowhere, &rest.Config{Host: "https://127.0.0.1:1"}))
	garbage := filepath.Join(t.TempDir(), "garbage.kubeconfig")
	require.NoError(t, os.WriteFile(garbage, []byte("no: [kubeconfig"), 0o600))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	// All that a start needs. A row may change a value: the last one counts.
	complete := []string{
		"--kubeconfig=" + nowhere, "--leader-elect-resource-namespace=default",
		"--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0",
	}

	const withUsage = "(nhc-controller --help lists the flags)"
	tests := map[string]struct {
		args    []string
		wantErr []string
	}{
		"unknown flag":                      {args: []string{"--no-such-flag"}, wantErr: []string{withUsage, "no-such-flag"}},
		"value that is no number":           {args: []string{"--concurrent-syncs=many"}, wantErr: []string{withUsage, "concurrent-syncs"}},
		"no syncs":                          {args: []string{"--concurrent-syncs=0"}, wantErr: []string{withUsage, "concurrent-syncs"}},
		"no requests":                       {args: []string{"--kube-api-qps=0"}, wantErr: []string{withUsage, "kube-api-qps"}},
		"negative burst":                    {args: []string{"--kube-api-burst=-1"}, wantErr: []string{withUsage, "kube-api-burst"}},
		"no lease namespace":                {args: []string{"--lease-namespace="}, wantErr: []string{withUsage, "lease-namespace"}},
		"lease shorter than renewal":        {args: []string{"--leader-elect-lease-duration=5s"}, wantErr: []string{withUsage, "leader-elect-lease-duration"}},
		"renewal shorter than retry":        {args: []string{"--leader-elect-renew-deadline=1s"}, wantErr: []string{withUsage, "leader-elect-renew-deadline"}},
		"no retry period":                   {args: []string{"--leader-elect-retry-period=0s"}, wantErr: []string{withUsage, "leader-elect-retry-period"}},
		"another kind of lock":              {args: []string{"--leader-elect-resource-lock=configmaps"}, wantErr: []string{withUsage, "leader-elect-resource-lock"}},
		"no name of the leader lease":       {args: []string{"--leader-elect-resource-name="}, wantErr: []string{withUsage, "leader-elect-resource-name"}},
		"no namespace of it outside a pod":  {args: []string{"--leader-elect-resource-namespace="}, wantErr: []string{withUsage, "leader-elect-resource-namespace"}},
		"unknown logging format":            {args: []string{"--logging-format=xml"}, wantErr: []string{withUsage, "xml"}},
		"several faults, all told":          {args: []string{"--concurrent-syncs=0", "--kube-api-qps=-1"}, wantErr: []string{withUsage, "concurrent-syncs", "kube-api-qps"}},
		"argument":                          {args: []string{"serve"}, wantErr: []string{"serve"}},
		"kubeconfig that does not exist":    {args: []string{"--kubeconfig=" + nowhere + ".missing"}, wantErr: []string{nowhere + ".missing"}},
		"kubeconfig that is none":           {args: []string{"--kubeconfig=" + garbage}, wantErr: []string{"kubeconfig"}},
		"no kubeconfig outside a pod":       {args: []string{"--kubeconfig="}, wantErr: []string{"in-cluster"}},
		"port of the probes that is taken":  {args: []string{"--health-probe-bind-address=" + taken.Addr().String()}, wantErr: []string{"probes", taken.Addr().String()}},
		"port of the metrics that is taken": {args: []string{"--metrics-bind-address=" + taken.Addr().String()}, wantErr: []string{"metrics", taken.Addr().String()}},
		"address that is none":              {args: []string{"--metrics-bind-address=here"}, wantErr: []string{"metrics", "here"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := invoke(t, append(slices.Clone(complete), tc.args...)...)
			require.Equal(t, 1, code, stderr)
			require.Empty(t, stdout)
			for _, want := range tc.wantErr {
				require.Contains(t, stderr, want)
			}
			if !slices.Contains(tc.wantErr, withUsage) {
				require.NotContains(t, stderr, withUsage, "the usage hides what was wrong")
			}
		})
	}

	t.Run("help", func(t *testing.T) {
		t.Parallel()
		code, stdout, stderr := invoke(t, "--help")
		require.Equal(t, 0, code, stderr)
		require.Empty(t, stderr)
		for _, flag := range []string{
			"kubeconfig", "kube-api-qps", "kube-api-burst", "concurrent-syncs", "lease-namespace",
			"leader-elect", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period",
			"leader-elect-resource-lock", "leader-elect-resource-name", "leader-elect-resource-namespace",
			"metrics-bind-address", "enable-http2", "health-probe-bind-address", "v", "logging-format", "version",
		} {
			require.Contains(t, stdout, "--"+flag+" ", "22.4")
		}
	})
	t.Run("version", func(t *testing.T) {
		t.Parallel()
		code, stdout, stderr := invoke(t, "--version")
		require.Equal(t, 0, code, stderr)
		require.NotEmpty(t, stdout)
	})
}

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

	t.Run("a standby ends without delay", func(t *testing.T) {
		leader := c.startController(t, "idle-leader")
		c.eventuallyLeader(t, "idle-leader")
		standby := c.startController(t, "idle-standby")
		eventuallyReady(t, standby)
		require.NoError(t, standby.Signal(syscall.SIGTERM))
		require.Equal(t, 0, exitCode(t, standby), standby.LogTail())
		require.Equal(t, "idle-leader", c.leader(t))
		requireRunning(t, leader)
	})

	t.Run("a running sync finishes", func(t *testing.T) {
		s := newScenario(t, c)
		s.createNodes("a")
		controller := c.startController(t, "finishing")
		s.createNHC()
		creations := s.holdCreations()
		s.fail("a")
		creations.await(t)
		require.NoError(t, controller.Signal(syscall.SIGTERM))
		eventuallyLogged(t, controller, "Stopping")
		requireRunning(t, controller)
		require.Equal(t, "finishing", c.leader(t), "22.6: first the syncs finish, then the lease is released")
		require.Nil(t, s.cr("a"))
		creations.release()
		require.Equal(t, 0, exitCode(t, controller), controller.LogTail())
		require.Empty(t, c.leader(t))
		cr := s.cr("a")
		require.NotNil(t, cr)
		s.requireOnly("a", cr)
		require.Equal(t, []string{"Created remediation object for node " + s.node("a")}, s.events("RemediationCreated"),
			"no later process knows that the event is missing")
	})

	t.Run("a second signal does not wait", func(t *testing.T) {
		s := newScenario(t, c)
		s.createNodes("a")
		controller := c.startController(t, "impatient", shortLease...)
		s.createNHC()
		creations := s.holdCreations()
		s.fail("a")
		creations.await(t)
		require.NoError(t, controller.Signal(syscall.SIGTERM))
		eventuallyLogged(t, controller, "Stopping")
		requireRunning(t, controller)
		require.NoError(t, controller.Signal(syscall.SIGINT))
		require.Equal(t, 1, exitCode(t, controller), controller.LogTail())
		require.Empty(t, s.crs(), "the sync had not finished")
	})

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
		require.Equal(t, http.StatusServiceUnavailable, probe(t, controller, "/readyz"), "22.5")
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
