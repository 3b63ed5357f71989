// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

func (r *root) hold() *cobra.Command {
	return r.forNodes(&cobra.Command{
		Use:   "hold NODE...",
		Short: "Have nothing begin for a node",
		Long: `Gives a node the label remediation.medik8s.io/exclude-from-remediation=true. While it has the
label, no health check begins anything for it. A remediation that runs is kept, and
goes no further. The node still counts as not healthy if it is.`,
		Example: "  kubectl nhc hold node-3",
	}, (*Intervener).Hold)
}

func (r *root) release() *cobra.Command {
	return r.forNodes(&cobra.Command{
		Use:     "release NODE...",
		Short:   "End hold",
		Long:    "Removes the label remediation.medik8s.io/exclude-from-remediation=true from a node.",
		Example: "  kubectl nhc release node-3",
	}, (*Intervener).Release)
}

func (r *root) confirmHealthy() *cobra.Command {
	return r.forNodes(&cobra.Command{
		Use:   "confirm-healthy NODE...",
		Short: "End the healthy delay of a node",
		Long: `Gives a node the annotation remediation.medik8s.io/manually-confirmed-healthy, if it is healthy
again and a NodeHealthCheck keeps its remediation objects for spec.healthyDelay. They are
deleted then, and the controller removes the annotation.`,
		Example: "  kubectl nhc confirm-healthy node-3",
	}, (*Intervener).ConfirmHealthy)
}

// forNodes completes a command that does something to nodes.
func (r *root) forNodes(command *cobra.Command, do func(*Intervener, context.Context, string) (Result, error)) *cobra.Command {
	command, c := r.intervention(command, needsNodes)
	command.Args = atLeastOne("Node", "kubectl get nodes")
	command.ValidArgsFunction = cobra.CompletionFunc(r.complete(true, cluster.NodeNames))
	command.RunE = func(command *cobra.Command, args []string) error {
		return c.each(command.Context(), args, "Node", cluster.NodeNames, func(i *Intervener, name string) (Result, error) {
			return do(i, command.Context(), name)
		})
	}
	return command
}
