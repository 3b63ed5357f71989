// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

func (r *root) history() *cobra.Command {
	var (
		out   output
		node  string
		since string
	)
	command := &cobra.Command{
		Use:   "history [NAME]",
		Short: "Show what happened before",
		Long: `Shows the episodes that the status of NodeHealthChecks and MachineHealthChecks records: when a
node became unhealthy, what was tried, how long it took, and how it ended. With a NAME,
only those of that health check. Status keeps 20 episodes by default, see
spec.remediationHistoryLimit. The dashboard draws them.`,
		Example: `  kubectl nhc history
  kubectl nhc history workers --since 7d
  kubectl nhc history --node node-3 -o wide`,
		GroupID:           looking,
		Args:              atMostOne,
		ValidArgsFunction: cobra.CompletionFunc(r.complete(false, cluster.HealthCheckNames)),
		RunE: func(command *cobra.Command, args []string) error {
			now := r.Now()
			filter := view.Filter{Node: node}
			if since != "" {
				age, err := parseAge(since)
				if err != nil {
					return err
				}
				filter.Since = now.Add(-age)
			}
			clients, err := r.clients()
			if err != nil {
				return err
			}
			snapshot, err := cluster.Read(command.Context(), clients, cluster.Kinds{MachineHealthChecks: true, Nodes: node != ""})
			if err != nil {
				return err
			}
			if len(args) > 0 {
				filter.Check = args[0]
				if names := view.Checks(snapshot); !slices.Contains(names, filter.Check) {
					return notFound("health check", filter.Check, names, "kubectl nhc status")
				}
			}
			history := view.NewHistory(snapshot, filter, now)
			if names, all := view.Targets(snapshot); node != "" && len(history.Episodes) == 0 && all && !slices.Contains(names, node) {
				return notFound("Node or Machine", node, names, "kubectl get nodes")
			}
			return r.show(out, history, func(printer *view.Printer) { history.Print(printer, out.format == formatWide) })
		},
	}
	out.add(command, formatTable, formatWide, formatJSON, formatYAML)
	command.Flags().StringVar(&node, "node", "", "Show only this node or Machine")
	command.Flags().StringVar(&since, "since", "", "Show only what had not ended this long ago, such as 12h or 7d")
	_ = command.RegisterFlagCompletionFunc("node", cobra.CompletionFunc(r.complete(true, cluster.NodeNames))) // The flag exists.
	return command
}

// parseAge reads a duration that may be given in days or weeks.
func parseAge(text string) (time.Duration, error) {
	age, err := view.ParseAge(text)
	if err != nil {
		return 0, &cluster.Error{Sentence: fmt.Sprintf("%q is no age: give one such as 90m, 12h, 7d or 2w.", text), Cause: err}
	}
	return age, nil
}
