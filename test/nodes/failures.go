// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nhc-controller/nhc-controller/test/nodes/machine"
)

// Cut pulls the cable of the node. What runs on it goes on.
func (n *Node) Cut() error { return n.link("down") }

// Join puts the cable back.
func (n *Node) Join() error { return n.link("up") }

func (n *Node) link(state string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = state == "down"
	if n.on == nil {
		return nil // It matters when the power is back.
	}
	return n.cluster.network.ip("link set " + n.cable() + " " + state)
}

// Freeze hangs the node: nothing in it runs until Thaw.
func (n *Node) Freeze() error {
	return n.powered("freezing", func(*running) error { return n.group.Freeze() })
}

// Thaw lets it go on as if nothing had been.
func (n *Node) Thaw() error {
	return n.powered("thawing", func(*running) error { return n.group.Thaw() })
}

// KillKubelet ends the kubelet, which does not come back before StartKubelet. Containers go on.
func (n *Node) KillKubelet() error { return n.stop(machine.Kubelet, syscall.SIGKILL) }

// StartKubelet brings the kubelet back.
func (n *Node) StartKubelet() error { return n.start(machine.Kubelet) }

// KillRuntime ends containerd, which does not come back before StartRuntime. Containers go on.
func (n *Node) KillRuntime() error { return n.stop(machine.Runtime, syscall.SIGKILL) }

// StopRuntime hangs containerd until StartRuntime.
func (n *Node) StopRuntime() error { return n.stop(machine.Runtime, syscall.SIGSTOP) }

// StartRuntime has containerd come back, or go on.
func (n *Node) StartRuntime() error { return n.start(machine.Runtime) }

func (n *Node) stop(service string, signal syscall.Signal) error {
	return n.powered("stopping the "+service+" of", func(on *running) error {
		return on.tell(machine.Command{Do: machine.Stop, Service: service, Signal: int(signal)})
	})
}

func (n *Node) start(service string) error {
	return n.powered("starting the "+service+" of", func(on *running) error {
		return on.tell(machine.Command{Do: machine.Start, Service: service})
	})
}

// FillDisk fills the disk of the node, up to a hundredth of it.
func (n *Node) FillDisk() error {
	return n.powered("filling the disk of", func(on *running) error {
		var space unix.Statfs_t
		if err := unix.Statfs(on.path(machine.Disk), &space); err != nil {
			return err
		}
		file, err := os.Create(on.path(filling))
		if err != nil {
			return err
		}
		defer file.Close()
		size := (int64(space.Bavail) - int64(space.Blocks)/100) * space.Bsize
		return unix.Fallocate(int(file.Fd()), 0, 0, size)
	})
}

const filling = machine.Disk + "/filling"

// EmptyDisk removes what has filled it. The kubelet has deleted images meanwhile, which come back too.
func (n *Node) EmptyDisk() error {
	return n.powered("emptying the disk of", func(on *running) error {
		if err := os.Remove(on.path(filling)); err != nil {
			return err
		}
		return on.tell(machine.Command{Do: machine.Import})
	})
}

// path returns where a file of the node is to be found.
func (r *running) path(inside string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", r.pid), inside)
}
