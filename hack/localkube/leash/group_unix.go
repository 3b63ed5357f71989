// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
