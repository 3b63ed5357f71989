// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

// startShell runs a shell script as startProcess does any command, and waits for
// it to print a line.
func startShell(t *testing.T, script string, grace time.Duration) *Process {
	t.Helper()
	leash, err := Binary("leash")
	require.NoError(t, err)
	p, err := startProcess(leash, t.TempDir(), Command{
		Name:  "shell",
		Path:  "/bin/sh",
		Args:  []string{"-c", script},
		Env:   []string{"GREETING=hello"},
		Grace: grace,
	})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	patience.Eventually(t, "the script prints something", func() bool { return p.LogTail() != "" })
	return p
}

// exitCodeOf waits for the process to exit.
func exitCodeOf(t *testing.T, p *Process) int {
	t.Helper()
	code, err := p.Wait(t.Context())
	require.NoError(t, err)
	return code
}

// gone is true if no process has this id.
func gone(pid int) bool {
	return syscall.Kill(pid, 0) == syscall.ESRCH
}

func TestProcessExitCode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		want   int
	}{
		"success": {"echo $GREETING", 0},
		"failure": {"echo $GREETING; exit 7", 7},
		"signal":  {"echo $GREETING; kill -9 $$", 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startShell(t, tc.script, 0)
			require.Equal(t, tc.want, exitCodeOf(t, p))
			require.Equal(t, "hello", p.LogTail())
			require.ErrorIs(t, p.Signal(syscall.SIGTERM), os.ErrProcessDone)
			require.NoError(t, p.Kill())
		})
	}
}

func TestProcessStop(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		signal syscall.Signal // Sent before Stop.
		want   int
	}{
		"orderly":            {"trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done", 0, 3},
		"deaf to SIGTERM":    {"trap '' TERM; echo ready; while :; do sleep 0.05; done", 0, 137},
		"while it is paused": {"trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done", syscall.SIGSTOP, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grace := time.Minute
			if tc.want == 137 {
				grace = 100 * time.Millisecond
			}
			p := startShell(t, tc.script, grace)
			if tc.signal != 0 {
				require.NoError(t, p.Signal(tc.signal))
			}
			p.Stop()
			require.True(t, gone(p.Pid()))
			require.Equal(t, tc.want, exitCodeOf(t, p))
		})
	}
}

func TestProcessTakesItsChildrenAlong(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"when it is stopped": "sleep 1000 & echo $!; wait",
		"when it exits":      "sleep 1000 & echo $!",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startShell(t, script, 0)
			child, err := strconv.Atoi(p.LogTail())
			require.NoError(t, err)
			if name == "when it is stopped" {
				p.Stop()
			}
			<-p.Exited()
			patience.Eventually(t, "init reaps the orphan", func() bool { return gone(child) })
		})
	}
}

func TestProcessDiesWithItsLeash(t *testing.T) {
	t.Parallel()
	p := startShell(t, "echo $PPID; sleep 1000", 0)
	leash, err := strconv.Atoi(p.LogTail())
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(leash, syscall.SIGKILL))
	patience.Eventually(t, "the kernel kills the process", func() bool { return gone(p.Pid()) })
}

func TestLeashIgnoresTheTerminal(t *testing.T) {
	t.Parallel()
	p := startShell(t, "trap 'exit 3' TERM; echo $PPID; while :; do sleep 0.05; done", 0)
	leash, err := strconv.Atoi(p.LogTail())
	require.NoError(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
		require.NoError(t, syscall.Kill(leash, sig))
	}
	require.NoError(t, syscall.Kill(leash, syscall.SIGTERM))
	require.Equal(t, 3, exitCodeOf(t, p), "SIGTERM is passed on")
}
