// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

const (
	// parentEnv makes the test binary start a control plane and end as the value
	// says.
	parentEnv = "LOCALKUBE_TEST_PARENT"
	// markEnv marks a process and all its descendants.
	markEnv = "LOCALKUBE_TEST_MARK"
)

// marked returns the command lines of all other processes with a mark.
func marked(t *testing.T, mark string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc to find the processes")
	}
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var found []string
	for _, path := range environments {
		// A process may be gone by now. One that is dead but not reaped has no
		// environment.
		environment, _ := os.ReadFile(path)
		if filepath.Dir(path) == fmt.Sprintf("/proc/%d", os.Getpid()) ||
			!bytes.Contains(environment, []byte(markEnv+"="+mark)) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
	}
	return found
}

// startAll starts a control plane with everything, whose etcd has been restarted, and
// a process that ignores SIGTERM and has a child.
func startAll(ctx context.Context) (*ControlPlane, error) {
	cluster, err := Start(ctx, Options{NodeLifecycle: true, Kubelets: true})
	if err != nil {
		return nil, err
	}
	if err := cluster.RestartEtcd(ctx); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	_, err = cluster.StartProcess(Command{
		Name:  "stubborn",
		Path:  "/bin/sh",
		Args:  []string{"-c", "trap '' TERM; sleep 1000 & while :; do sleep 0.05; done"},
		Grace: 1,
	})
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return cluster, nil
}

func TestStopLeavesNothing(t *testing.T) {
	mark := t.Name() + strconv.Itoa(os.Getpid())
	t.Setenv(markEnv, mark)
	cluster, err := startAll(t.Context())
	require.NoError(t, err)
	// Three of the control plane, and the shell, each with its leash.
	require.GreaterOrEqual(t, len(marked(t, mark)), 2*4)
	require.DirExists(t, cluster.Dir())

	require.NoError(t, cluster.Stop())
	require.Empty(t, marked(t, mark))
	require.NoDirExists(t, cluster.Dir())
	require.NoError(t, cluster.Stop(), "a second time")
}

// actAsParent is the main function of a process that will not clean up.
func actAsParent(mode string) {
	cluster, err := startAll(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cluster.Dir())
	if mode == "panic" {
		panic("as the test wants")
	}
	select {}
}

func TestNothingOutlivesItsParent(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"panic", "kill"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			mark := t.Name() + strconv.Itoa(os.Getpid())
			parent := exec.CommandContext(t.Context(), os.Args[0])
			parent.Env = append(os.Environ(), parentEnv+"="+mode, markEnv+"="+mark)
			stdout, err := parent.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, parent.Start())
			dir, err := bufio.NewReader(stdout).ReadString('\n')
			require.NoError(t, err)
			dir = strings.TrimSpace(dir)
			if mode == "kill" {
				require.NotEmpty(t, marked(t, mark))
				require.NoError(t, parent.Process.Kill())
			}
			require.Error(t, parent.Wait())
			patience.Eventually(t, "all processes are gone", func() bool { return len(marked(t, mark)) == 0 })
			require.NoDirExists(t, dir)
		})
	}
}
