// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/intervention"
)

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
	})
	command.RunE = func(command *cobra.Command, args []string) error {
		if reason == "" {
			return &cluster.Error{Sentence: "Say why, with --reason: others see it, and resume by it."}
		}
		return c.eachCheck(command.Context(), args, all, func(i *intervention.Intervener, name string) (intervention.Result, error) {
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
	})
	command.RunE = func(command *cobra.Command, args []string) error {
		if reason != "" && allReasons {
			return &cluster.Error{Sentence: "Give either --reason or --all-reasons."}
		}
		return c.eachCheck(command.Context(), args, all, func(i *intervention.Intervener, name string) (intervention.Result, error) {
			return i.Resume(command.Context(), name, reason, allReasons)
		})
	}
	command.Flags().StringVar(&reason, "reason", "", "Which one of the pause requests to remove")
	command.Flags().BoolVar(&allReasons, "all-reasons", false, "Remove all pause requests, also those of others")
	command.Flags().BoolVar(&all, "all", false, "Resume all NodeHealthChecks")
	return command
}

// eachCheck does the same to the NodeHealthChecks that are named, or to all of them.
func (c *change) eachCheck(ctx context.Context, names []string, all bool, do func(*intervention.Intervener, string) (intervention.Result, error)) error {
	if all == (len(names) > 0) {
		return &cluster.Error{Sentence: "Name the NodeHealthChecks, or give --all."}
	}
	if all {
		clients, err := c.clients()
		if err != nil {
			return err
		}
		if names, err = cluster.NodeHealthCheckNames(ctx, clients); err != nil {
			return err
		}
	}
	return c.each(ctx, names, v1alpha1.Kind, cluster.NodeHealthCheckNames, do)
}

func (r *root) stopAll() *cobra.Command {
	var reason string
	command, c := r.intervention(&cobra.Command{
		Use:   "stop-all [--reason TEXT]",
		Short: "Have no health check begin anything",
		Long: `Creates the RemediationBudget stop-all, which selects all nodes and permits no remediation:
NodeHealthChecks and MachineHealthChecks begin nothing, also those that are created
later. Remediations that run continue, with their next steps.`,
		Example: `  kubectl nhc stop-all --reason "Incident 4711, ask the storage team"`,
		Args:    cobra.NoArgs,
	})
	command.RunE = func(command *cobra.Command, _ []string) error {
		return c.each(command.Context(), []string{intervention.StopBudget}, v1alpha1.BudgetKind, nil, func(i *intervention.Intervener, _ string) (intervention.Result, error) {
			return i.StopAll(command.Context(), reason)
		})
	}
	command.Flags().StringVar(&reason, "reason", "", "Why, and whom to ask")
	return command
}

func (r *root) resumeAll() *cobra.Command {
	command, c := r.intervention(&cobra.Command{
		Use:   "resume-all",
		Short: "End stop-all",
		Long:  `Deletes the RemediationBudget stop-all. Other budgets and pause requests stay as they are.`,
		Args:  cobra.NoArgs,
	})
	command.RunE = func(command *cobra.Command, _ []string) error {
		return c.each(command.Context(), []string{intervention.StopBudget}, v1alpha1.BudgetKind, nil, func(i *intervention.Intervener, _ string) (intervention.Result, error) {
			return i.ResumeAll(command.Context())
		})
	}
	return command
}
