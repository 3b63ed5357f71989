// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nhc-controller/nhc-controller/test/nodes/cgroup"
	"github.com/nhc-controller/nhc-controller/test/nodes/machine"
)

// diskSize is that of the disk of a node, which takes as much of the machine as is written to it.
const diskSize = 2 << 30

// Node is a machine of the cluster. Its methods may be called from any goroutine.
type Node struct {
	Name string

	cluster *Cluster
	index   int
	dir     string
	logs    string
	group   cgroup.Group

	mu  sync.Mutex
	cut bool // The cable is pulled. It stays so without power.
	on  *running
}

// running is a node with power.
type running struct {
	pid      int
	commands *os.File
	encoder  *json.Encoder
	answers  *json.Decoder
	exited   chan struct{}
}

func (n *Node) disk() string { return filepath.Join(n.dir, "disk.img") }

// console is the file with what process 1 says.
func (n *Node) console() string { return filepath.Join(n.logs, "console.log") }

// cable is the name of the end of its cable that is in the network of the control plane.
func (n *Node) cable() string { return "cable-" + n.Name }

// create makes a node without power.
func (n *Node) create() error {
	if err := errors.Join(os.MkdirAll(n.dir, 0o700), os.MkdirAll(n.logs, 0o700)); err != nil {
		return err
	}
	if err := n.group.Create(); err != nil {
		return err
	}
	if err := os.WriteFile(n.disk(), nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(n.disk(), diskSize); err != nil {
		return err
	}
	if output, err := exec.Command("mkfs.ext4", "-q", "-F", n.disk()).CombinedOutput(); err != nil {
		return fmt.Errorf("making the disk of node %s: %w: %s", n.Name, err, output)
	}
	return nil
}

// PowerOn switches the node on. It returns when its services run, before the node is Ready. Nothing
// happens if the node has power.
func (n *Node) PowerOn() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on != nil {
		return nil
	}
	if err := n.powerOn(); err != nil {
		console, _ := os.ReadFile(n.console()) // Of no use if it cannot be read.
		err = fmt.Errorf("%w\n%s", err, console)
		return fmt.Errorf("switching node %s on: %w", n.Name, errors.Join(err, n.powerOff()))
	}
	return nil
}

func (n *Node) powerOn() error {
	spec, err := n.writeConfig()
	if err != nil {
		return err
	}
	if n.on, err = n.launch(spec); err != nil {
		return err
	}
	// It begins as another program: until it is the right one, it seems to have no network, or not to be there.
	if err := n.on.answer(); err != nil {
		return err
	}
	network := n.cluster.network
	if err := network.plugIn(n, n.on.pid, len(n.cluster.nodes)); err != nil {
		return err
	}
	if !n.cut {
		if err := network.ip("link set " + n.cable() + " up"); err != nil {
			return err
		}
	}
	return n.on.tell(machine.Command{Do: machine.Boot})
}

// launch starts process 1 of the node.
func (n *Node) launch(spec string) (*running, error) {
	commandsInside, commands, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer commandsInside.Close()
	answers, answersInside, err := os.Pipe()
	if err != nil {
		commands.Close()
		return nil, err
	}
	defer answersInside.Close()
	console, err := os.OpenFile(n.console(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer console.Close()
	cmd := exec.Command(n.cluster.programs.node, "init", spec)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.ExtraFiles = []*os.File{commandsInside, answersInside}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
	}
	if err := cmd.Start(); err != nil {
		commands.Close()
		answers.Close()
		return nil, err
	}
	on := &running{
		pid: cmd.Process.Pid, commands: commands, encoder: json.NewEncoder(commands),
		answers: json.NewDecoder(answers), exited: make(chan struct{}),
	}
	go func() {
		defer close(on.exited)
		_ = cmd.Wait() // It was killed.
		answers.Close()
	}()
	return on, nil
}

// tell has process 1 do something.
func (r *running) tell(command machine.Command) error {
	if err := r.encoder.Encode(command); err != nil {
		return err
	}
	return r.answer()
}

// answer waits for an answer of process 1.
func (r *running) answer() error {
	var answer machine.Answer
	if err := r.answers.Decode(&answer); err != nil {
		return fmt.Errorf("process 1 has ended, see console.log: %w", err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// check returns an error if a service of the node does not stay up.
func (n *Node) check() error {
	return n.powered("starting", func(on *running) error { return on.tell(machine.Command{Do: machine.Check}) })
}

// PowerOff cuts the power: everything in the node stops in the same instant. Nothing happens if the
// node has none.
func (n *Node) PowerOff() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.powerOff(); err != nil {
		return fmt.Errorf("switching node %s off: %w", n.Name, err)
	}
	return nil
}

func (n *Node) powerOff() error {
	if n.on == nil {
		return nil
	}
	if err := n.group.Kill(); err != nil {
		return err
	}
	n.on.commands.Close() // It may not have joined its group yet.
	<-n.on.exited
	n.on = nil
	// Otherwise the kernel takes its time, and the name is in use when the power is back.
	if err := n.cluster.network.unplug(n.cable()); err != nil {
		return err
	}
	if err := n.awaitDisk(); err != nil {
		return err
	}
	return n.group.Clear()
}

// awaitDisk returns when the kernel has let go of the disk.
func (n *Node) awaitDisk() error {
	for range 1000 {
		files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		if err != nil {
			return err
		}
		used := false
		for _, file := range files {
			content, err := os.ReadFile(file)
			used = used || err == nil && strings.TrimSpace(string(content)) == n.disk()
		}
		if !used {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("the kernel does not let go of " + n.disk())
}

// powered calls a function with the running node.
func (n *Node) powered(what string, do func(*running) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := errors.New("it has no power")
	if n.on != nil {
		err = do(n.on)
	}
	if err != nil {
		return fmt.Errorf("%s node %s: %w", what, n.Name, err)
	}
	return nil
}
