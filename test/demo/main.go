// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// demo shows the controller at work on a real Kubernetes API server. It plays one of
// several scenarios, waits until each step of it can be seen through the API, and
// prints what it sees. It ends by itself, with an error if a step does not appear.
//
//	demo [scenario]
//
// With KEEP=1 in the environment the cluster goes on until it is interrupted, with the dashboard of
// bin/kubectl-nhc.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	flag.Parse()
	s, err := find(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}
