// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nhc-controller/nhc-controller/test/nodes/machine"
)

// initStage is init once it is in the groups of its node.
const initStage = "init-in-group"

// The pipe of a machine. If its other end is closed, the power is off.
const (
	commandsFD = 3
	answersFD  = 4
)

// enter joins the groups of the node, makes them the root of what the node sees, and begins again
// there: only a new program has all of its threads in the new namespace.
func enter(args []string) error {
	spec, err := readSpec(args[0])
	if err != nil {
		return err
	}
	if err := spec.Group.Join(); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("leaving the cgroup namespace: %w", err)
	}
	return syscall.Exec("/proc/self/exe", []string{os.Args[0], initStage, args[0]}, os.Environ())
}

func readSpec(path string) (*machine.Spec, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	spec := &machine.Spec{}
	return spec, json.Unmarshal(content, spec)
}

// boot is process 1 of a node. It does what it is told until the power is off.
func boot(args []string) error {
	spec, err := readSpec(args[0])
	if err != nil {
		return err
	}
	commands := json.NewDecoder(os.NewFile(commandsFD, "commands"))
	answers := json.NewEncoder(os.NewFile(answersFD, "answers"))
	for _, fd := range []int{commandsFD, answersFD} {
		syscall.CloseOnExec(fd)
	}
	services := newServices(spec)
	if err := answers.Encode(machine.Answer{}); err != nil { // It has begun.
		return err
	}
	for {
		var command machine.Command
		if err := commands.Decode(&command); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answer := machine.Answer{}
		if err := obey(spec, services, command); err != nil {
			answer.Error = err.Error()
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

func obey(spec *machine.Spec, services *services, command machine.Command) error {
	switch command.Do {
	case machine.Boot:
		if err := prepare(spec); err != nil {
			return err
		}
		return services.startAll()
	case machine.Check:
		return services.check()
	case machine.Import:
		return services.importImages()
	case machine.Stop:
		return services.stop(command.Service, syscall.Signal(command.Signal))
	case machine.Start:
		return services.start(command.Service)
	}
	return fmt.Errorf("what is %q?", command.Do)
}
