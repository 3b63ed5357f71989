// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command has the commands of kubectl nhc. Each command is a file. No command ends the
// process, or reads the clock or the environment by itself.
package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Environment is what the commands get from the process.
type Environment struct {
	genericiooptions.IOStreams
	// Now reads the clock. Times are printed in its location.
	Now func() time.Time
	// Getenv reads a variable of the environment.
	Getenv func(string) string
}

// Exit codes.
const (
	// ExitOK means that the command has done its work, also if the view is partial.
	ExitOK = 0
	// ExitFound means that the command has done its work, and found something that is not as it should be.
	ExitFound = 1
	// ExitError means that the command could not look, or not do its work. Standard error says why.
	ExitError = 2
)

// found is the error of a command that ends with ExitFound.
type found struct{ error }

// Unwrap returns the error itself.
func (f found) Unwrap() error { return f.error }

// Run runs the command with these arguments, and returns its exit code.
func Run(ctx context.Context, environment Environment, args []string) int {
	command := New(environment) //nolint:contextcheck // Completions take the context of the command.
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	for _, sentence := range explain(err) {
		fmt.Fprintln(environment.ErrOut, "Error: "+view.Clean(sentence))
	}
	if _, is := errors.AsType[found](err); is {
		return ExitFound
	}
	return ExitError
}

// explain returns the sentences of an error, one for each object that a command has failed for.
func explain(err error) (sentences []string) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			sentences = append(sentences, explain(one)...)
		}
		return sentences
	}
	if known, ok := errors.AsType[*cluster.Error](err); ok {
		return []string{known.Sentence}
	}
	return []string{err.Error()}
}

// root has the common state of all commands.
type root struct {
	Environment
	config *genericclioptions.ConfigFlags
}

// New returns the command kubectl nhc.
func New(environment Environment) *cobra.Command {
	r := &root{Environment: environment, config: genericclioptions.NewConfigFlags(true)}
	command := &cobra.Command{
		Use:         "nhc",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl nhc"},
		Short:       "Show what nhc-controller does about unhealthy nodes, and intervene",
		Long: `kubectl nhc shows what NodeHealthChecks, MachineHealthChecks and RemediationBudgets do
about unhealthy nodes, why they do no more, who is next, and what happened before. It
also makes the changes that people need at night: pause, abort, confirm that a node is
healthy.

It exits with 0 if what was asked for was shown or done, with 1 if lint, check, pause or resume
found something to correct, and with 2 if it could not look. All flags of kubectl work, such as
--context and --namespace: kubectl options lists them.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	r.config.AddFlags(command.PersistentFlags())
	command.PersistentFlags().VisitAll(func(flag *pflag.Flag) { flag.Hidden = true }) // They would hide those of a command.
	command.SetIn(environment.In)
	command.SetOut(environment.Out)
	command.SetErr(environment.ErrOut)
	command.AddGroup(&cobra.Group{ID: looking, Title: "Look:"}, &cobra.Group{ID: intervening, Title: "Intervene:"})
	command.AddCommand(r.status(), r.history(), r.explain(), r.dashboard(), r.check(), r.lint(), r.simulate(), r.pause(), r.resume(), r.abort(), r.confirmHealthy(), r.version())
	_ = command.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { // The flag exists.
		config, _ := r.config.ToRawKubeConfigLoader().RawConfig() // Without one, nothing is completed.
		return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
	return command
}

// Groups of commands.
const (
	looking     = "look"
	intervening = "intervene"
)
