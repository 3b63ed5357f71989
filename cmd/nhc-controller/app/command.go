// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app wires the controller: flags, clients, informers, leader election and
// HTTP servers. It is the only code that reads flags and the environment.
package app

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/buildinfo"
)

// NewCommand returns the command of the controller. It ends with an error, and
// thus with exit code 1, on bad flags, a failed start and a lost leader lease, and
// without one after SIGTERM or SIGINT.
func NewCommand() *cobra.Command {
	options, build := NewOptions(), buildinfo.Version()
	command := &cobra.Command{
		Use:   "nhc-controller",
		Short: "Has unhealthy Nodes repaired, as the NodeHealthChecks of the cluster say",
		Long: `nhc-controller watches the Nodes that NodeHealthChecks select, decides from their
conditions which are unhealthy, and creates a remediation object for each of them
from the template that the NodeHealthCheck refers to. It deletes the object when
the Node is healthy again.`,
		Version:      build.GitVersion,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(options.Logging, nil); err != nil {
				return usageError(command, err)
			}
			if problems := options.Validate(); len(problems) > 0 {
				return usageError(command, problems.ToAggregate())
			}
			cliflag.PrintFlags(command.Flags())
			ctx, stop := signalContext(command.Context())
			defer stop()
			klog.FromContext(ctx).Info("Starting nhc-controller", "version", build.GitVersion, "commit", build.GitCommit)
			return Run(ctx, options)
		},
	}
	command.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	command.SetFlagErrorFunc(usageError)
	logsapi.AddFlags(options.Logging, command.Flags())
	options.AddFlags(command.Flags())
	command.CompletionOptions.DisableDefaultCmd = true
	command.AddCommand(newDashboardCommand())
	return command
}

// usageError prints the usage, because the flags were wrong, and returns err.
func usageError(command *cobra.Command, err error) error {
	fmt.Fprintln(command.ErrOrStderr(), command.UsageString())
	return err
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

// Validate returns what is wrong with the options.
func (o *Options) Validate() field.ErrorList {
	var problems field.ErrorList
	positive := func(flag string, value float64) {
		if value <= 0 {
			problems = append(problems, field.Invalid(field.NewPath("--"+flag), value, "must be greater than zero"))
		}
	}
	positive("kube-api-qps", float64(o.QPS))
	positive("kube-api-burst", float64(o.Burst))
	positive("concurrent-syncs", float64(o.ConcurrentSyncs))
	positive("machine-backoff-base", o.MachineBackOff.Base.Seconds())
	if o.MachineBackOff.Cap < o.MachineBackOff.Base {
		problems = append(problems, field.Invalid(field.NewPath("--machine-backoff-cap"), o.MachineBackOff.Cap.String(), "must not be less than --machine-backoff-base"))
	}
	problems = append(problems, validateControllers(o.Controllers)...)
	if o.LeaseNamespace == "" {
		problems = append(problems, field.Required(field.NewPath("--lease-namespace"), "the leases of nodes need a namespace"))
	}
	if o.LeaderElection.LeaderElect {
		problems = append(problems, validateLeaderElection(&o.LeaderElection)...)
	}
	return append(problems, validateTLS(o)...)
}
