// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nhc-controller/nhc-controller/test/nodes/cgroup"
)

// keep holds the network namespace of a control plane, which it was started in. When its parent closes
// stdin, or ends in whatever way, it ends all nodes of the cluster, and removes what is left of them.
func keep(args []string) error {
	// A terminal sends them to everything in its foreground.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return cgroup.Sweep(args[0], args[1])
}
