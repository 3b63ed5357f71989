// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"

	"github.com/spf13/cobra"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

func (r *root) status() *cobra.Command {
	var (
		out   output
		watch bool
	)
	command := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show health checks and budgets, who waits and why, and who is next",
		Long: `Shows the NodeHealthChecks, MachineHealthChecks and RemediationBudgets of the cluster: how many
nodes are healthy, and how many may be unhealthy; who is under remediation; who waits and
why; and which nodes become unhealthy when, if nothing changes. With a NAME, only those
of that name. A MachineHealthCheck is named NAMESPACE/NAME.`,
		Example: `  kubectl nhc status
  kubectl nhc status workers -o wide
  kubectl nhc status --watch`,
		GroupID:           looking,
		Args:              atMostOne,
		ValidArgsFunction: cobra.CompletionFunc(r.complete(false, cluster.HealthCheckNames)),
		RunE: func(command *cobra.Command, args []string) error {
			clients, err := r.clients()
			if err != nil {
				return err
			}
			show := func(snapshot *view.Snapshot) (*view.Overview, error) {
				overview := view.NewOverview(snapshot, r.Now())
				if len(args) == 0 {
					return overview, nil
				}
				if !overview.Select(args[0]) {
					return nil, notFound("health check or budget", args[0], overview.Names(), "kubectl nhc status")
				}
				return overview, nil
			}
			if watch {
				return r.watchStatus(command.Context(), clients, out, show)
			}
			snapshot, err := cluster.Read(command.Context(), clients, cluster.Everything)
			if err != nil {
				return err
			}
			overview, err := show(snapshot)
			if err != nil {
				return err
			}
			return r.printOverview(overview, out)
		},
	}
	out.add(command, formatTable, formatWide, formatJSON, formatYAML, formatName)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "Show it again whenever something changes")
	return command
}

func (r *root) printOverview(overview *view.Overview, out output) error {
	if out.format == formatName {
		return r.printNames(overview)
	}
	return r.show(out, overview, func(printer *view.Printer) { overview.Print(printer, out.format == formatWide) })
}

// printNames prints the names of all that an overview has.
func (r *root) printNames(overview *view.Overview) error {
	for i := range overview.NodeHealthChecks {
		if err := r.printName(v1alpha1.Resource(v1alpha1.Plural), overview.NodeHealthChecks[i].Name); err != nil {
			return err
		}
	}
	for i := range overview.MachineHealthChecks {
		if err := r.printName(machinev1beta1.Resource("machinehealthchecks"), overview.MachineHealthChecks[i].Name); err != nil {
			return err
		}
	}
	for i := range overview.RemediationBudgets {
		if err := r.printName(nhcv1alpha1.Resource(nhcv1alpha1.BudgetPlural), overview.RemediationBudgets[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// watchStatus shows the overview now, and again whenever it changes, until the context ends.
func (r *root) watchStatus(ctx context.Context, clients *cluster.Clients, out output, show func(*view.Snapshot) (*view.Overview, error)) error {
	return r.follow(ctx, clients, func(snapshot *view.Snapshot) (string, error) {
		overview, err := show(snapshot)
		if err != nil {
			return "", err
		}
		if out.forPeople() {
			return r.toText(func(printer *view.Printer) { overview.Print(printer, out.format == formatWide) }), nil
		}
		return "", r.printOverview(overview, out)
	})
}
