// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// prefix begins the names of all clusters.
const prefix = "nhc-nodes-"

// ClusterName returns a name for a cluster of this process, for its group and its directory. The name
// tells whether the process still runs.
func ClusterName() (string, error) {
	start, err := startTime("self")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%d-%s-", prefix, os.Getpid(), start), nil
}

// Sweep ends all that is in the group of a cluster, and removes the group and the directory. Several
// processes may want the same at a time.
func Sweep(name, dir string) error {
	lock, err := os.Open(root)
	if err != nil {
		return err
	}
	defer lock.Close() // It unlocks.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	group := Group(name)
	if err := group.Kill(); err != nil {
		return err
	}
	if err := group.Remove(); err != nil {
		return err
	}
	return await("removed with its directory", func() (bool, error) {
		return os.RemoveAll(dir) == nil, nil // Meanwhile a component that ends may write another file.
	})
}

// SweepLeftovers does that with all clusters whose process is gone, and returns their names.
func SweepLeftovers(dirs string) ([]string, error) {
	groups, err := Find(prefix)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dirs, prefix+"*"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, group := range groups {
		names[string(group)] = true
	}
	for _, path := range paths {
		names[filepath.Base(path)] = true
	}
	var swept []string
	for name := range names {
		fields := strings.Split(strings.TrimPrefix(name, prefix), "-")
		if len(fields) < 2 {
			continue
		}
		if start, err := startTime(fields[0]); err == nil && start == fields[1] {
			continue
		}
		if err := Sweep(name, filepath.Join(dirs, name)); err != nil {
			return swept, fmt.Errorf("removing what is left of %s: %w", name, err)
		}
		swept = append(swept, name)
	}
	return swept, nil
}

// startTime returns when a process was started, in ticks since the machine was. With its id it names
// a process once and for all.
func startTime(pid string) (string, error) {
	content, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return "", err
	}
	// The second field is a name in parentheses, with any characters.
	_, rest, found := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest)
	const field = 22 - 3
	if !found || len(fields) <= field {
		return "", errors.New("cannot read " + string(content))
	}
	return fields[field], nil
}
