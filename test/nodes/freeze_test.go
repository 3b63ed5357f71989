// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/nodes/cgroup"
)

// restlessEnv makes this program join the group of its value, and begin again for ever.
const restlessEnv = "NODES_TEST_RESTLESS"

// restless begins again from a thread that is not the first one, while others run.
func restless(group string) error {
	if err := cgroup.Group(group).Join(); err != nil {
		return err
	}
	for range 200 {
		go func() {
			runtime.LockOSThread()
			_ = syscall.Nanosleep(&syscall.Timespec{Sec: 1000}, nil)
		}()
	}
	time.Sleep(10 * time.Millisecond)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		failed <- syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}()
	return <-failed
}

// TestFreeze: a node can be frozen at any time, also while a process in it becomes another program.
func TestFreeze(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckRequirements())
	name, err := cgroup.ClusterName()
	require.NoError(t, err)
	group := cgroup.Group(fmt.Sprintf("%s%d", name, started.Add(1)))
	require.NoError(t, group.Create())
	program, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for range 2 {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), restlessEnv+"="+string(group))
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Wait() })
	}
	t.Cleanup(func() { require.NoError(t, cgroup.Sweep(string(group), dir)) })
	for range 30 {
		require.NoError(t, group.Freeze())
		require.NoError(t, group.Thaw())
		time.Sleep(10 * time.Millisecond)
	}
}
