// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/installation"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// checkOptions are the flags of check.
type checkOptions struct {
	out            output
	leaseNamespace string
	wait           bool
	timeout        time.Duration
}

// checkInterval is the time between two looks at an installation that does not work yet.
const checkInterval = 2 * time.Second

func (r *root) check() *cobra.Command {
	var options checkOptions
	command := &cobra.Command{
		Use:   "check",
		Short: "Check that the controller is installed, and works",
		Long: `Checks an installation: whether the API server has the CustomResourceDefinitions, and accepts a
NodeHealthCheck in a dry run; the namespace of leases; whether all replicas are ready, and one is
at work, by the clock of the API server; and which health checks wait for a correction. It changes
nothing.

It exits with 1 if something is wrong, and with 2 if only a part could not be read.`,
		Example: `  kubectl apply --server-side -f install.yaml && kubectl nhc check --wait`,
		GroupID: looking,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return r.runCheck(command.Context(), &options)
		},
	}
	options.out.add(command)
	command.Flags().StringVar(&options.leaseNamespace, "lease-namespace", defaultLeaseNamespace, "Namespace of the leases of nodes")
	command.Flags().BoolVar(&options.wait, "wait", false, "Wait until all that you may see is well")
	command.Flags().DurationVar(&options.timeout, "timeout", 2*time.Minute, "How long to wait")
	return command
}

func (r *root) runCheck(ctx context.Context, options *checkOptions) error {
	clients, err := r.clients()
	if err != nil {
		return err
	}
	report, err := installation.Check(ctx, clients, options.leaseNamespace, r.Now())
	for deadline := r.Now().Add(options.timeout); options.wait && (err != nil || report.Unsettled()) && r.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return cluster.Explain(ctx.Err(), "ask", "the cluster")
		case <-time.After(checkInterval):
		}
		report, err = installation.Check(ctx, clients, options.leaseNamespace, r.Now())
	}
	if err != nil {
		return err
	}
	if err := r.show(&options.out, "Installation", report, report.Print); err != nil {
		return err
	}
	switch problems, admin, unread := report.Count(); {
	case problems > 0:
		return found{&cluster.Error{Sentence: fmt.Sprintf("The installation is not in order: %s.", view.Counted(problems, "problem"))}}
	case admin+unread > 0:
		return &cluster.Error{Sentence: fmt.Sprintf("Nothing is wrong in what could be seen: %d parts need an admin, %d could not be read.", admin, unread)}
	}
	return nil
}
