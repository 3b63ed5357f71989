// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/buildinfo"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/installation"
)

// checkOptions are the flags of check.
type checkOptions struct {
	out                     output
	account, leaseNamespace string
	wait                    bool
	timeout                 time.Duration
}

// checkInterval is the time between two looks at an installation that does not work yet.
const checkInterval = 2 * time.Second

func (r *root) check() *cobra.Command {
	var options checkOptions
	command := &cobra.Command{
		Use:   "check",
		Short: "Check that the controller is installed as shipped, and works",
		Long: `Checks an installation: the CustomResourceDefinitions and admission policies, compared with those
of this version; the namespace of leases; the permissions of the controller; that one is at
work, by the lease of the leader and the clock of the API server; the template and the
permissions of each step that a health check has; remediation objects whose health check is
gone; and whether the API server accepts a NodeHealthCheck, in a dry run. It changes nothing.

It exits with 0 if all is well, and with 1 if something is not, or cannot be read.`,
		Example: `  kubectl apply --server-side -f install.yaml && kubectl nhc check --wait`,
		GroupID: looking,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return r.runCheck(command.Context(), &options)
		},
	}
	options.out.add(command, formatTable, formatJSON, formatYAML)
	command.Flags().StringVar(&options.account, "service-account", "", "ServiceAccount of the controller (default nhc-controller, in the namespace of the leader)")
	command.Flags().StringVar(&options.leaseNamespace, "lease-namespace", defaultLeaseNamespace, "Namespace of the leases of nodes")
	command.Flags().BoolVar(&options.wait, "wait", false, "Wait until all is well")
	command.Flags().DurationVar(&options.timeout, "timeout", 2*time.Minute, "How long to wait")
	return command
}

func (r *root) runCheck(ctx context.Context, options *checkOptions) error {
	wanted := installation.Options{LeaseNamespace: options.leaseNamespace, Version: buildinfo.Version().GitVersion, Now: r.Now}
	if options.account != "" {
		var err error
		if wanted.Account, err = serviceAccount(options.account); err != nil {
			return err
		}
	}
	clients, err := r.clients()
	if err != nil {
		return err
	}
	report, err := installation.Check(ctx, clients, wanted)
	for deadline := r.Now().Add(options.timeout); options.wait && (err != nil || !report.Works()) && r.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return cluster.Explain(ctx.Err(), "ask", "the cluster")
		case <-time.After(checkInterval):
		}
		report, err = installation.Check(ctx, clients, wanted)
	}
	if err != nil {
		return err
	}
	err = r.show(options.out, report, report.Print)
	if problems, unread := report.Count(); err == nil && problems+unread > 0 {
		return &cluster.Error{Sentence: fmt.Sprintf("The installation is not in order: %d problems, %d not checked.", problems, unread)}
	}
	return err
}
