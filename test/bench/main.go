// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// bench measures a controller of NodeHealthChecks from outside, as a process on a
// real API server: how soon it acts, what it asks of the API server, and how much
// CPU and memory it takes, for clusters of several sizes.
//
//	go run ./test/bench -nodes=200,1000
//	go run ./test/bench -nodes=5000 -scenarios=storm -controller=PATH
//
// Times on a shared machine say little by themselves. So each is measured together
// with a control: another process, which does the least that any controller must do, in
// the same cluster and under the same load. What counts is the ratio.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) > 2 && controls[os.Args[1]] != nil {
		err = runControl(ctx, os.Args[1:])
	} else {
		err = run(ctx, os.Args[1:])
	}
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures all sizes. If a size cannot be measured, it measures the others all the
// same.
func run(ctx context.Context, args []string) error {
	if err := discardLogs(); err != nil {
		return err
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	var r report
	var errs []error
	for _, nodes := range o.sizes {
		result, err := measure(ctx, o, nodes)
		if err != nil {
			errs = append(errs, fmt.Errorf("%d nodes: %w", nodes, err))
		}
		if result != nil {
			r = append(r, result)
		}
		if ctx.Err() != nil {
			break
		}
	}
	r.print(os.Stdout)
	if missed := r.missed(); o.strict && missed > 0 {
		errs = append(errs, fmt.Errorf("%d goals were missed", missed))
	}
	return errors.Join(errs...)
}

// discardLogs drops what client-go logs. What goes wrong comes back as an error, the rest
// is noise in the table: it complains of each watch that ends inside of an object.
func discardLogs() error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	klog.SetOutput(io.Discard)
	return errors.Join(flags.Set("logtostderr", "false"), flags.Set("stderrthreshold", "FATAL"))
}
