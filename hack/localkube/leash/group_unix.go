// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import (
	"os/exec"
	"syscall"
)

func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit returns when the command has exited. Without waitid it cannot leave a zombie:
// another group may already have its number.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }
