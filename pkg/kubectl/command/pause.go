// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// errEitherReason is about flags that exclude each other.
var errEitherReason = &cluster.Error{Sentence: "Give either --reason or --all-reasons."}

// machinePaused is the annotation that pauses a MachineHealthCheck.
const machinePaused = "cluster.x-k8s.io/paused"

func (r *root) pause() *cobra.Command {
	var (
		reason string
		all    bool
	)
	command, c := r.intervention(&cobra.Command{
		Use:   "pause NAME... --reason TEXT",
		Short: "Have NodeHealthChecks begin nothing new",
		Long: `Adds a reason to spec.pauseRequests. While there is one, the NodeHealthCheck begins nothing
new. Remediations that run are finished. The ClusterRole nhc-pause is enough.`,
		Example: `  kubectl nhc pause workers --reason "freeze 4711, ask Kim"
  kubectl nhc pause --all --reason "switch maintenance" --dry-run=server`,
		ValidArgsFunction: cobra.CompletionFunc(r.complete(true, cluster.NodeHealthCheckNames)),
	}, needsPause)
	command.RunE = func(command *cobra.Command, args []string) error {
		if reason == "" {
			return noReason("resume")
		}
		return c.eachCheck(command.Context(), args, all, func(i *Intervener, name string) (Result, error) {
			return i.Pause(command.Context(), name, reason)
		})
	}
	command.Flags().StringVar(&reason, "reason", "", "Why, and whom to ask")
	command.Flags().BoolVar(&all, "all", false, "Pause all NodeHealthChecks")
	return command
}

func (r *root) resume() *cobra.Command {
	var (
		reason          string
		all, allReasons bool
	)
	command, c := r.intervention(&cobra.Command{
		Use:   "resume NAME... [--reason TEXT]",
		Short: "Have NodeHealthChecks go on that were paused",
		Long: `Removes a reason from spec.pauseRequests. Without --reason, the only one is removed: if there
are several, they are listed, because others may rely on theirs.`,
		Example: `  kubectl nhc resume workers
  kubectl nhc resume --all --reason "switch maintenance"`,
		ValidArgsFunction: cobra.CompletionFunc(r.complete(true, cluster.NodeHealthCheckNames)),
	}, needsPause)
	command.RunE = func(command *cobra.Command, args []string) error {
		if reason != "" && allReasons {
			return errEitherReason
		}
		return c.eachCheck(command.Context(), args, all, func(i *Intervener, name string) (Result, error) {
			return i.Resume(command.Context(), name, reason, allReasons)
		})
	}
	command.Flags().StringVar(&reason, "reason", "", "Which one of the pause requests to remove")
	command.Flags().BoolVar(&allReasons, "all-reasons", false, "Remove all pause requests, also those of others")
	command.Flags().BoolVar(&all, "all", false, "Resume all NodeHealthChecks")
	return command
}

// eachCheck does the same to the NodeHealthChecks that are named, or to all of them.
func (c *change) eachCheck(ctx context.Context, names []string, all bool, do func(*Intervener, string) (Result, error)) error {
	for _, name := range names {
		if namespace, machineCheck, is := strings.Cut(name, "/"); is {
			return &cluster.Error{Sentence: fmt.Sprintf("A MachineHealthCheck is paused by an annotation: kubectl annotate machinehealthchecks.machine.openshift.io -n %s %s %s=true, and %[3]s- to resume.", namespace, machineCheck, machinePaused)}
		}
	}
	if all == (len(names) > 0) {
		return &cluster.Error{Sentence: "Name the NodeHealthChecks, or give --all."}
	}
	if all {
		clients, err := c.clients()
		if err != nil {
			return err
		}
		if names, err = cluster.NodeHealthCheckNames(ctx, clients); err != nil {
			return c.needed(err)
		}
	}
	return c.each(ctx, names, v1alpha1.Kind, cluster.NodeHealthCheckNames, do)
}

func (r *root) stopAll() *cobra.Command {
	var reason string
	command, c := r.intervention(&cobra.Command{
		Use:   "stop-all --reason TEXT",
		Short: "Have no health check begin anything",
		Long: `Creates the RemediationBudget stop-all, which selects all nodes and permits no remediation:
NodeHealthChecks and MachineHealthChecks begin nothing, also those that are created
later. Remediations that run continue, with their next steps. Each reason has a budget of
its own.`,
		Example: `  kubectl nhc stop-all --reason "Incident 4711, ask the storage team"`,
		Args:    cobra.NoArgs,
	}, needsEdit)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if reason == "" {
			return noReason("resume-all")
		}
		return c.each(command.Context(), []string{StopBudget}, v1alpha1.BudgetKind, nil, func(i *Intervener, _ string) (Result, error) {
			return i.StopAll(command.Context(), reason)
		})
	}
	command.Flags().StringVar(&reason, "reason", "", "Why, and whom to ask")
	return command
}

// noReason says that a reason is missing, and which command needs it later.
func noReason(command string) error {
	return &cluster.Error{Sentence: "Say why, with --reason: others see it, and " + command + " by it."}
}

func (r *root) resumeAll() *cobra.Command {
	var (
		reason     string
		allReasons bool
	)
	command, c := r.intervention(&cobra.Command{
		Use:   "resume-all [--reason TEXT]",
		Short: "End stop-all",
		Long: `Deletes the RemediationBudget of stop-all. If everything is stopped for several reasons, they are
listed: name one with --reason. Other budgets and pause requests stay as they are.`,
		Args: cobra.NoArgs,
	}, needsEdit)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if reason != "" && allReasons {
			return errEitherReason
		}
		intervener, err := c.intervener()
		if err != nil {
			return err
		}
		results, err := intervener.ResumeAll(command.Context(), reason, allReasons)
		for _, result := range results {
			err = errors.Join(c.report(result), err)
		}
		c.warn(command.Context(), intervener.Clients)
		return c.needed(err)
	}
	command.Flags().StringVar(&reason, "reason", "", "Which one of the stops to end")
	command.Flags().BoolVar(&allReasons, "all-reasons", false, "End all stops, also those of others")
	return command
}
