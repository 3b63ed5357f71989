// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cgroup holds the processes of a node together: with them they freeze, and lose their power,
// all at once. It knows version 1 of cgroups only.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	root    = "/sys/fs/cgroup"
	freezer = "freezer"
	cpuset  = "cpuset"

	patience = 30 * time.Second
	pause    = 10 * time.Millisecond
	// freezing takes milliseconds, unless it cannot be done.
	freezing = 3 * time.Second
)

// Hierarchy is one of the hierarchies of cgroups of this machine.
type Hierarchy struct {
	Name    string   // Its directory in /sys/fs/cgroup.
	Aliases []string // Other names of the directory.
	Options string   // Those of a mount of it.
}

// Hierarchies returns those of version 1 that this machine has.
func Hierarchies() ([]Hierarchy, error) {
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var found []Hierarchy
	var hasFreezer bool
	for line := range strings.Lines(string(content)) {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) < 3 || fields[1] == "" {
			continue // Version 2.
		}
		h := Hierarchy{Name: fields[1], Options: fields[1]}
		if name, named := strings.CutPrefix(fields[1], "name="); named {
			h.Name, h.Options = name, "none,"+fields[1]
		} else if parts := strings.Split(fields[1], ","); len(parts) > 1 {
			h.Aliases = parts
		}
		hasFreezer = hasFreezer || h.Name == freezer
		found = append(found, h)
	}
	if !hasFreezer {
		return nil, errors.New("this machine does not have cgroups of version 1 with a freezer, and nothing else has been tried")
	}
	return found, nil
}

// Group is the group of the same path in each hierarchy.
type Group string

// Find returns the groups at the top whose names begin with a prefix.
func Find(prefix string) ([]Group, error) {
	paths, err := filepath.Glob(filepath.Join(root, "*", prefix+"*"))
	if err != nil {
		return nil, err
	}
	var groups []Group
	seen := map[string]bool{}
	for _, path := range paths {
		if name := filepath.Base(path); !seen[name] {
			seen[name] = true
			groups = append(groups, Group(name))
		}
	}
	return groups, nil
}

func (g Group) in(hierarchy string) string { return filepath.Join(root, hierarchy, string(g)) }

// Create makes a group whose parent exists.
func (g Group) Create() error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		dir := g.in(h.Name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if h.Name != cpuset {
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // Empty at first, and then no process may join.
			value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// Join makes this process a member.
func (g Group) Join() error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := os.WriteFile(filepath.Join(g.in(h.Name), "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Freeze halts all members and those of the groups below, and returns when all are halted.
//
// The thread of a process that is about to run another program waits for its other threads to end, and is not halted
// before: if one of these is halted first, none goes on for ever. So it lets them go on for a moment, and tries again.
func (g Group) Freeze() error {
	var err error
	for range int(patience / freezing) {
		if err = setFreezer(g.in(freezer), "FROZEN"); err != nil {
			return err
		}
		err = awaitFor(freezing, "frozen", func() (bool, error) {
			state, err := os.ReadFile(filepath.Join(g.in(freezer), "freezer.state"))
			return strings.TrimSpace(string(state)) == "FROZEN", err
		})
		if err == nil {
			return nil
		}
		if err := g.Thaw(); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return err
}

// Thaw lets them go on, also those of groups below that were frozen for themselves.
func (g Group) Thaw() error {
	return g.walk(freezer, func(dir string) error { return setFreezer(dir, "THAWED") })
}

func setFreezer(dir, state string) error {
	return os.WriteFile(filepath.Join(dir, "freezer.state"), []byte(state), 0o644)
}

// Kill ends all members and those of the groups below. They are frozen first: so that none sees
// another one die.
func (g Group) Kill() error {
	if _, err := os.Stat(g.in(freezer)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := g.Freeze(); err != nil {
		return err
	}
	pids, err := g.processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	if err := g.Thaw(); err != nil {
		return err
	}
	return await("empty", func() (bool, error) {
		pids, err := g.processes()
		return len(pids) == 0, err
	})
}

// processes returns the members, and those of the groups below.
func (g Group) processes() ([]int, error) {
	var pids []int
	err := g.walk(freezer, func(dir string) error {
		content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for line := range strings.Lines(string(content)) {
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				return err
			}
			pids = append(pids, pid)
		}
		return err
	})
	return pids, err
}

// Clear removes the groups below, which have no members.
func (g Group) Clear() error { return g.remove(func(dir, top string) bool { return dir != top }) }

// Remove removes the group and those below, which have no members.
func (g Group) Remove() error { return g.remove(func(string, string) bool { return true }) }

func (g Group) remove(which func(dir, top string) bool) error {
	hierarchies, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		err := await("removed", func() (bool, error) {
			err := g.walk(h.Name(), func(dir string) error {
				if !which(dir, g.in(h.Name())) {
					return nil
				}
				return os.Remove(dir)
			})
			if errors.Is(err, syscall.EBUSY) { // For a moment after the last member.
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// walk visits the group and those below in a hierarchy, the deepest first. What disappears meanwhile
// is no error.
func (g Group) walk(hierarchy string, visit func(dir string) error) error {
	var dirs []string
	err := filepath.WalkDir(g.in(hierarchy), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		if err = visit(dirs[i]); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			err = nil
		}
	}
	return err
}

// await polls until something is so.
func await(what string, check func() (bool, error)) error { return awaitFor(patience, what, check) }

func awaitFor(patience time.Duration, what string, check func() (bool, error)) error {
	for range int(patience / pause) {
		done, err := check()
		if done || err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("a group is not %s after %s", what, patience)
}
