// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nhc-controller/nhc-controller/test/nodes/cgroup"
	"github.com/nhc-controller/nhc-controller/test/nodes/machine"
)

// prepare makes what the node sees of the machine: all of its programs, but none of its devices,
// nothing that changes its kernel, and a disk and directories of its own.
func prepare(spec *machine.Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(spec.Name)); err != nil {
		return err
	}
	for _, step := range []func(*machine.Spec) error{mountKernel, mountDisk, mountDevices, mountFakes} {
		if err := step(spec); err != nil {
			return err
		}
	}
	return nil
}

// mount mounts a file system on a directory, which it makes.
func mount(kind, target, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(kind, target, kind, 0, options); err != nil {
		return fmt.Errorf("mounting %s on %s (%s): %w", kind, target, options, err)
	}
	return nil
}

// bind shows a directory at another place too. It makes both.
func bind(source, target string) error {
	for _, dir := range []string{source, target} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", source, target, err)
	}
	return nil
}

// mountKernel has the kernel show what is in the namespaces of the node.
func mountKernel(*machine.Spec) error {
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		return err
	}
	err = errors.Join(
		mount("proc", "/proc", ""),
		mount("sysfs", "/sys", ""),
		mount("tmpfs", "/sys/fs/cgroup", "mode=755"),
	)
	for _, h := range hierarchies {
		err = errors.Join(err, mount("cgroup", filepath.Join("/sys/fs/cgroup", h.Name), h.Options))
		for _, alias := range h.Aliases {
			err = errors.Join(err, os.Symlink(h.Name, filepath.Join("/sys/fs/cgroup", alias)))
		}
	}
	return err
}

// mountDisk mounts the disk, and what is on it. All else that services write is gone with the power.
func mountDisk(spec *machine.Spec) error {
	for _, dir := range []string{"/run", "/var/lib", "/var/log"} {
		if err := mount("tmpfs", dir, "mode=755"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(machine.Disk, 0o755); err != nil {
		return err
	}
	// It lets go of the loop device when the mount is gone.
	if output, err := exec.Command("mount", "-o", "loop", spec.Disk, machine.Disk).CombinedOutput(); err != nil {
		return fmt.Errorf("mounting the disk: %w: %s", err, output)
	}
	err := errors.Join(
		bind(machine.Disk+"/kubelet", "/var/lib/kubelet"),
		unix.Mount("", "/var/lib/kubelet", "", unix.MS_SHARED, ""), // Pods see what is mounted later.
		bind(machine.Disk+"/containerd", "/var/lib/containerd"),
		bind(machine.Disk+"/pods", "/var/log/pods"),
		bind(machine.Disk+"/containers", "/var/log/containers"),
		bind(spec.Shared, machine.Shared),
	)
	return err
}

// mountDevices makes /dev, without the disks and watchdogs of the machine.
func mountDevices(*machine.Spec) error {
	const dev = "/run/dev"
	err := errors.Join(
		mount("tmpfs", dev, "mode=755"),
		mount("devpts", dev+"/pts", "newinstance,ptmxmode=0666,mode=620"),
		mount("tmpfs", dev+"/shm", ""),
	)
	for name, number := range map[string][2]uint32{
		"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "kmsg": {1, 11}, "tty": {5, 0},
	} {
		path := filepath.Join(dev, name)
		err = errors.Join(err, unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(number[0], number[1]))), os.Chmod(path, 0o666))
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		err = errors.Join(err, os.Symlink(target, filepath.Join(dev, name)))
	}
	return errors.Join(err, unix.Mount(dev, "/dev", "", unix.MS_MOVE, ""))
}

// mountFakes hides the settings of the kernel that the kubelet would change for the whole machine:
// they have the values that it wants. So it does with what resets the machine.
func mountFakes(*machine.Spec) error {
	const dir = "/run/fake"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for path, value := range map[string]string{
		"sys/vm/overcommit_memory":     "1",
		"sys/vm/panic_on_oom":          "0",
		"sys/kernel/panic":             "10",
		"sys/kernel/panic_on_oops":     "1",
		"sys/kernel/keys/root_maxkeys": "1000000", "sys/kernel/keys/root_maxbytes": "25000000",
		"sysrq-trigger": "",
	} {
		fake := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(fake, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		err := unix.Mount(fake, filepath.Join("/proc", path), "", unix.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("hiding %s: %w", path, err)
		}
	}
	return nil
}
