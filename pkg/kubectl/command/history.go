// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

func (r *root) history() *cobra.Command {
	var (
		out   output
		since string
	)
	command := &cobra.Command{
		Use:   "history [node/NAME | CHECK]",
		Short: "Show what happened before",
		Long: `Shows the episodes that the status of health checks records: when a node became unhealthy, what
was tried, how long it took, and how it ended. With a name, only those of that node, Machine or
health check.`,
		Example: `  kubectl nhc history
  kubectl nhc history workers --since 7d
  kubectl nhc history node/node-3 -o wide`,
		GroupID:           looking,
		Args:              between(0, 1, "node or health check", "kubectl nhc status"),
		ValidArgsFunction: r.complete(false, cluster.Names(cluster.Kinds{MachineHealthChecks: true}), true),
		RunE: func(command *cobra.Command, args []string) error {
			now := r.Now()
			filter := view.Filter{}
			if since != "" {
				age, valid := view.ParseAge(since)
				if !valid {
					return &cluster.Error{Sentence: fmt.Sprintf("%q is no age: give one such as 90m, 12h, 7d or 2w.", since)}
				}
				filter.Since = now.Add(-age)
			}
			clients, err := r.clients()
			if err != nil {
				return err
			}
			snapshot, err := cluster.Read(command.Context(), clients, cluster.Kinds{MachineHealthChecks: true, Nodes: len(args) > 0})
			if err != nil {
				return err
			}
			if len(args) > 0 {
				node, isNode := nodeOf(args[0])
				if !isNode && slices.Contains(view.Checks(snapshot), args[0]) {
					filter.Check = args[0]
				} else {
					filter.Node = cmp.Or(node, args[0])
				}
			}
			history := view.NewHistory(snapshot, filter, now)
			nodes := view.NodeNames(snapshot)
			if filter.Node != "" && len(history.Episodes) == 0 && len(snapshot.Missing) == 0 && !slices.Contains(nodes, filter.Node) {
				return notFound("node or health check", args[0], append(view.Checks(snapshot), nodes...), "kubectl nhc status")
			}
			return r.show(&out, "History", history, func(printer *view.Printer) { history.Print(printer, out.format == formatWide) })
		},
	}
	out.add(command, formatWide)
	command.Flags().StringVar(&since, "since", "", "Show only what had not ended this long ago, such as 12h or 7d")
	return command
}
