// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
		Args:              between(0, 1, "health check or budget", "kubectl nhc status"),
		ValidArgsFunction: r.complete(false, cluster.HealthCheckNames, false),
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
				return r.watchStatus(command.Context(), clients, &out, show)
			}
			snapshot, err := cluster.Read(command.Context(), clients, cluster.Everything)
			if err != nil {
				return err
			}
			overview, err := show(snapshot)
			if err != nil {
				return err
			}
			return r.printOverview(overview, &out)
		},
	}
	out.add(command, formatWide, formatName)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "Show it again whenever something changes")
	return command
}

func (r *root) printOverview(overview *view.Overview, out *output) error {
	if out.format == formatName {
		return out.printObject(r, namesOf(overview))
	}
	return r.show(out, "Overview", overview, func(printer *view.Printer) { overview.Print(printer, out.format == formatWide) })
}

// namesOf are the objects that an overview has, by their names only.
func namesOf(overview *view.Overview) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	add := func(kind schema.GroupVersionKind, name string) {
		object := unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetName(name)
		list.Items = append(list.Items, object)
	}
	for i := range overview.NodeHealthChecks {
		add(v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.Kind), overview.NodeHealthChecks[i].Name)
	}
	for _, mhc := range overview.MachineHealthChecks {
		add(machinev1beta1.SchemeGroupVersion.WithKind("MachineHealthCheck"), mhc.Name)
	}
	for _, budget := range overview.RemediationBudgets {
		add(nhcv1alpha1.SchemeGroupVersion.WithKind(nhcv1alpha1.BudgetKind), budget.Name)
	}
	return list
}

// watchStatus shows the overview now, and again whenever it changes, until the context ends.
func (r *root) watchStatus(ctx context.Context, clients *cluster.Clients, out *output, show func(*view.Snapshot) (*view.Overview, error)) error {
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
