// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ownerEnv makes this program start a cluster, hang one of its nodes, print what it is, and wait.
const ownerEnv = "NODES_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerEnv) == "" {
		os.Exit(m.Run())
	}
	if err := own(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func own() error {
	cluster, err := Start(context.Background(), Options{Nodes: []string{"a", "b"}, Log: os.Stderr})
	if err != nil {
		return err
	}
	if err := cluster.Node("a").Freeze(); err != nil {
		return err
	}
	fmt.Println(cluster.dir, cluster.keeper.Process.Pid)
	select {}
}

// startOwner returns the process, the directory of its cluster, and its keeper.
func startOwner(t *testing.T) (owner *os.Process, dir string, keeper int) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), ownerEnv+"=1")
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	_, err = fmt.Sscan(line, &dir, &keeper)
	require.NoError(t, err)
	return cmd.Process, dir, keeper
}

// remains lists what there is of a cluster.
func remains(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", filepath.Base(dir)))
	require.NoError(t, err)
	if _, err := os.Stat(dir); err == nil {
		found = append(found, dir)
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	require.NoError(t, err)
	for _, loop := range loops {
		if file, err := os.ReadFile(loop); err == nil && strings.HasPrefix(string(file), dir) {
			found = append(found, loop)
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, process := range processes {
		if command, err := os.ReadFile(process); err == nil && strings.Contains(string(command), dir) {
			found = append(found, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// machineState is what must be as before: settings of the kernel, addresses and routes, and mounts.
func machineState(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, path := range []string{
		"/proc/sys/vm/overcommit_memory", "/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops",
		"/proc/sys/kernel/keys/root_maxkeys", "/proc/sys/kernel/keys/root_maxbytes", "/proc/sys/net/ipv4/ip_forward",
		"/proc/self/mounts", "/proc/net/route", "/proc/net/if_inet6", "/proc/sys/kernel/hostname",
	} {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		state[path] = string(content)
	}
	for _, dir := range []string{"/var/lib", "/var/log", "/etc", "/run"} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, entry := range entries {
			state[dir] += entry.Name() + "\n"
		}
	}
	return state
}

// TestNothingStays: when its process is killed, nothing is left of a cluster, even of a node that hangs, and
// the machine is as before.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckRequirements())
	before := machineState(t)
	owner, dir, _ := startOwner(t)
	require.NotEmpty(t, remains(t, dir))
	require.Equal(t, before, machineState(t), "while it runs")
	require.NoError(t, owner.Kill())
	require.Eventually(t, func() bool { return len(remains(t, dir)) == 0 }, patience, time.Second, "what is left: %q", remains(t, dir))
	require.Equal(t, before, machineState(t))
}
