// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package program has the common parts of the programs in the image: the command, flags
// and logging, and the end by signals.
package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/buildinfo"
)

// Program runs until a signal ends it.
type Program struct {
	Name, Short, Long string
	// AddFlags adds the flags, to those of logging.
	AddFlags func(*pflag.FlagSet)
	// Validate returns what is wrong with the flags, once they have been read.
	Validate func() field.ErrorList
	// Run runs until its context is done.
	Run func(context.Context) error
}

// Command returns the command of the program. It ends with an error, and thus with exit
// code 1, on bad flags and when Run does, and without one after SIGTERM or SIGINT.
func (p Program) Command() *cobra.Command {
	logging, build := logsapi.NewLoggingConfiguration(), buildinfo.Version()
	command := &cobra.Command{
		Use:          p.Name,
		Short:        p.Short,
		Long:         p.Long,
		Version:      build.GitVersion,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return usageError(command, err)
			}
			if problems := p.Validate(); len(problems) > 0 {
				return usageError(command, problems.ToAggregate())
			}
			cliflag.PrintFlags(command.Flags())
			ctx, stop := signalContext(command.Context())
			defer stop()
			klog.FromContext(ctx).Info("Starting "+p.Name, "version", build.GitVersion, "commit", build.GitCommit)
			return p.Run(ctx)
		},
	}
	command.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	command.SetFlagErrorFunc(usageError)
	logsapi.AddFlags(logging, command.Flags())
	p.AddFlags(command.Flags())
	command.CompletionOptions.DisableDefaultCmd = true
	return command
}

// usageError adds the command that lists the flags to an error about wrong flags.
func usageError(command *cobra.Command, err error) error {
	return fmt.Errorf("%w (%s --help lists the flags)", err, command.CommandPath())
}

// signalContext returns a context that ends at the first SIGTERM or SIGINT. A
// second one ends the process at once.
func signalContext(parent context.Context) (context.Context, context.CancelFunc) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(klog.NewContext(parent, klog.Background()))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case received := <-signals:
			klog.FromContext(ctx).Info("Shutting down", "signal", received.String())
			cancel()
		case <-ctx.Done():
			return
		}
		<-signals
		os.Exit(1)
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}

// Environment returns a variable, or the fallback if it is unset or empty.
func Environment(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}
