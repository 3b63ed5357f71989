// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// groupOfItsOwn also covers a leash that is killed: the kernel then kills the
// command.
func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
