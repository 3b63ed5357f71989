// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// enterRoot is the first argument with which the executable of these tests changes its
// root to a directory, the second argument, and becomes the command that follows.
const enterRoot = "enter-root"

// root is a directory that commands have as their root, which they cannot write, as a
// user without any capability.
type root struct {
	dir string
	uid int
	// namespaces is true if commands get a user namespace and a mount namespace of their
	// own. Root can do without, if they are not permitted: a command is then kept from
	// writing by the owner of the files alone.
	namespaces bool
}

// newRoot returns a root in which the command runs, which has to end by itself.
func newRoot(t *testing.T, dir string, uid int, command ...string) root {
	t.Helper()
	// Other users may enter all directories, whatever the umask is.
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	}))
	r := root{dir: dir, uid: uid, namespaces: true}
	output, err := r.command(t.Context(), nil, command...).CombinedOutput()
	if err == nil {
		return r
	}
	t.Logf("without namespaces: %v: %s", err, output)
	if os.Geteuid() != 0 {
		t.Fatal("this test needs user namespaces, which are not permitted here, or root")
	}
	r.namespaces = false
	output, err = r.command(t.Context(), nil, command...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return r
}

// command returns a command in the root. It is killed when ctx ends.
func (r root) command(ctx context.Context, env []string, command ...string) *exec.Cmd {
	var c *exec.Cmd
	if r.namespaces {
		c = exec.CommandContext(ctx, "/proc/self/exe", append([]string{enterRoot, r.dir}, command...)...)
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: r.uid, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: r.uid, HostID: os.Getegid(), Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT}, // Within the namespace, until enter has dropped them.
		}
	} else {
		c = exec.CommandContext(ctx, command[0], command[1:]...)
		c.SysProcAttr = &syscall.SysProcAttr{
			Chroot:     r.dir,
			Credential: &syscall.Credential{Uid: uint32(r.uid), Gid: uint32(r.uid)},
		}
		c.Dir = "/"
	}
	c.SysProcAttr.Pdeathsig = syscall.SIGKILL
	c.Env = append([]string{}, env...) // Not that of the test, if it is empty.
	return c
}

// enter makes this process the command, with dir as its read-only root. It returns only
// if it cannot.
func enter(dir string, command []string) error {
	runtime.LockOSThread() // Capabilities are those of a thread.
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	var filesystem unix.Statfs_t
	if err := unix.Statfs(dir, &filesystem); err != nil {
		return err
	}
	// What holds for the mount outside has to be kept.
	kept := uintptr(filesystem.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, ""); err != nil {
		return fmt.Errorf("making the root read-only: %w", err)
	}
	if err := unix.Chroot(dir); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("dropping the capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return fmt.Errorf("executing %s: %w", command[0], unix.Exec(command[0], command, os.Environ()))
}

// requireConfined requires of a process in the root what a pod of the Deployment has.
func (r root) requireConfined(t *testing.T, pid int) {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(proc, name))
		require.NoError(t, err)
		return string(content)
	}
	status := map[string][]string{}
	for line := range strings.Lines(read("status")) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.Fields(value)
	}
	require.Equal(t, []string{"0000000000000000"}, status["CapEff"])
	require.Equal(t, []string{"0000000000000000"}, status["CapPrm"])
	if !r.namespaces {
		id := strconv.Itoa(r.uid)
		require.Equal(t, []string{id, id, id, id}, status["Uid"])
		require.Equal(t, []string{id, id, id, id}, status["Gid"])
		return
	}
	require.Equal(t, []string{"1"}, status["NoNewPrivs"])
	for name, outside := range map[string]int{"uid_map": os.Geteuid(), "gid_map": os.Getegid()} {
		require.Equal(t, []string{strconv.Itoa(r.uid), strconv.Itoa(outside), "1"}, strings.Fields(read(name)))
	}
	mounts := strings.Split(strings.TrimSpace(read("mountinfo")), "\n")
	require.Len(t, mounts, 1, "what the process can reach is its root")
	require.Contains(t, strings.Split(strings.Fields(mounts[0])[5], ","), "ro", mounts[0])
}
