// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// kubectl-nhc is the plugin kubectl nhc: it shows what nhc-controller does about unhealthy nodes,
// and intervenes.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // The ways to log in that kubectl has.
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/command"
)

// gcPercent is half of what Go has: the largest simulations take a third less memory, and a fourth more
// time.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	klog.LogToStderr(false) // What matters is an error or part of the view.
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, command.Environment{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Now:       time.Now,
		Getenv:    os.Getenv,
	}, os.Args[1:])
	stop()
	os.Exit(code)
}
