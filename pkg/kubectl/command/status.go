// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

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
		Long: `Shows how many nodes are healthy, and how many may be unhealthy; who is under remediation; who
waits and why; and which nodes become unhealthy when, if nothing changes. With a NAME, only what
has that name. A MachineHealthCheck is named NAMESPACE/NAME.`,
		Example: `  kubectl nhc status
  kubectl nhc status workers -o wide
  kubectl nhc status --watch`,
		GroupID:           looking,
		Args:              between(0, 1, "health check or budget", "kubectl nhc status"),
		ValidArgsFunction: r.complete(false, cluster.Names(cluster.Kinds{Budgets: true, MachineHealthChecks: true}), false),
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
		return r.printNames(overview)
	}
	return r.show(out, "Overview", overview, func(printer *view.Printer) { overview.Print(printer, out.format == formatWide) })
}

// printNames prints the names of the objects that an overview has, as kubectl does.
func (r *root) printNames(overview *view.Overview) error {
	var text strings.Builder
	for i := range overview.NodeHealthChecks {
		fmt.Fprintf(&text, "nodehealthcheck.%s/%s\n", v1alpha1.GroupName, overview.NodeHealthChecks[i].Name)
	}
	for _, mhc := range overview.MachineHealthChecks {
		fmt.Fprintf(&text, "machinehealthcheck.%s/%s\n", machinev1beta1.SchemeGroupVersion.Group, mhc.Name)
	}
	for _, budget := range overview.RemediationBudgets {
		fmt.Fprintf(&text, "remediationbudget.%s/%s\n", nhcv1alpha1.GroupName, budget.Name)
	}
	return r.print(text.String())
}

// redrawInterval is how often a terminal is drawn anew although nothing has changed: times pass. No request is sent for it.
const redrawInterval = 5 * time.Second

// Escape sequences of a terminal.
const (
	home       = "\x1b[H"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// watchStatus shows the overview now, and again whenever it changes, until the context ends.
func (r *root) watchStatus(ctx context.Context, clients *cluster.Clients, out *output, show func(*view.Snapshot) (*view.Overview, error)) error {
	return r.follow(ctx, cluster.Config{Clients: clients}, func(ctx context.Context, source *cluster.Cluster) error {
		var tick <-chan time.Time
		if _, terminal := r.isTerminal(); terminal && out.forPeople() {
			ticker := time.NewTicker(redrawInterval)
			defer ticker.Stop()
			tick = ticker.C
		}
		for {
			state := source.State()
			overview, err := show(state.Snapshot)
			switch {
			case err != nil:
			case out.forPeople():
				err = r.draw(overview, out)
			default:
				err = r.printOverview(overview, out)
			}
			if err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick:
			case <-state.Outdated:
			}
		}
	})
}

// draw prints an overview. On a terminal it takes the place of the last one, without a moment in which nothing is there.
// Elsewhere an empty line follows.
func (r *root) draw(overview *view.Overview, out *output) error {
	var text strings.Builder
	overview.Print(view.NewPrinter(&text, r.terminalOptions()), out.format == formatWide)
	if _, terminal := r.isTerminal(); terminal {
		return r.print(home + strings.ReplaceAll(text.String(), "\n", clearLine+"\n") + clearBelow)
	}
	return r.print(text.String() + "\n")
}

// follow follows the cluster while a function runs.
func (r *root) follow(ctx context.Context, config cluster.Config, do func(context.Context, *cluster.Cluster) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config.Now = r.Now
	source, err := cluster.New(ctx, config)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { source.Run(ctx) })
	err = do(ctx, source)
	cancel()
	running.Wait()
	return err
}
