// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// defaultLeaseNamespace is where the controller keeps the leases of nodes (spec 3).
const defaultLeaseNamespace = "medik8s-leases"

func (r *root) explain() *cobra.Command {
	command := &cobra.Command{
		Use:   "explain",
		Short: "Explain why a node or a Machine is remediated, or why not",
		Long:  `Explains what the health checks make of a node, or of a Machine.`,
		Example: `  kubectl nhc explain node node-3
  kubectl nhc explain machine openshift-machine-api/worker-3`,
		GroupID: looking,
		Args:    subcommand,
		RunE:    func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(r.explainNode(), r.explainMachine())
	return command
}

func (r *root) explainNode() *cobra.Command {
	var (
		out            output
		leaseNamespace string
	)
	command := &cobra.Command{
		Use:   "node NODE",
		Short: "Explain why a node is remediated, or why not",
		Long: `Compares the conditions of a node with each NodeHealthCheck that selects it, or says why none
does; what the controller has decided, and what happens next and when; what holds for the whole
health check; the steps with the conditions of their remediation objects; the lease of the node;
and recent events.`,
		Example:           `  kubectl nhc explain node node-3`,
		Args:              exactlyOne("Node", "kubectl get nodes"),
		ValidArgsFunction: cobra.CompletionFunc(r.complete(false, cluster.NodeNames)),
		RunE: func(command *cobra.Command, args []string) error {
			ctx, node := command.Context(), args[0]
			clients, err := r.clients()
			if err != nil {
				return err
			}
			snapshot, err := cluster.Read(ctx, clients, cluster.Everything)
			if err != nil {
				return err
			}
			details, err := cluster.ReadDetails(ctx, clients, snapshot, node, leaseNamespace)
			if err != nil {
				return err
			}
			explanation := view.NewExplanation(node, snapshot, details, r.Now())
			if explanation == nil {
				return notFound("Node", node, view.NodeNames(snapshot), "kubectl get nodes")
			}
			return r.show(out, explanation, explanation.Print)
		},
	}
	out.add(command, formatTable, formatJSON, formatYAML)
	command.Flags().StringVar(&leaseNamespace, "lease-namespace", defaultLeaseNamespace, "Namespace of the leases of nodes")
	return command
}

func (r *root) explainMachine() *cobra.Command {
	var out output
	command := &cobra.Command{
		Use:   "machine NAMESPACE/NAME",
		Short: "Explain why a Machine is replaced, or why not",
		Long: `Shows which MachineHealthChecks select a Machine, what they have decided about it, what
happens next and when, and what to do. The namespace can be given with --namespace, too.
To read the Machine itself you need get on machines; without, it shows what
MachineHealthChecks have reported.`,
		Example: `  kubectl nhc explain machine openshift-machine-api/worker-3`,
		Args:    exactlyOne("Machine", "kubectl nhc status"),
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			clients, err := r.clients()
			if err != nil {
				return err
			}
			namespace, name, both := strings.Cut(args[0], "/")
			if !both {
				namespace, name = clients.Namespace, args[0]
			}
			if namespace == "" || name == "" {
				return &cluster.Error{Sentence: "Name the Machine as NAMESPACE/NAME, or give --namespace."}
			}
			snapshot, err := cluster.Read(ctx, clients, cluster.Kinds{Budgets: true, MachineHealthChecks: true, Leader: true})
			if err != nil {
				return err
			}
			machine, err := cluster.ReadMachine(ctx, clients, snapshot, namespace, name)
			if err != nil {
				return err
			}
			explanation := view.NewMachineExplanation(namespace, name, snapshot, machine, r.Now())
			if explanation == nil && len(snapshot.Missing) > 0 {
				return &cluster.Error{Sentence: snapshot.Missing[0].Reason}
			}
			if explanation == nil {
				return notFound("Machine", args[0], view.MachineNames(snapshot), "kubectl get machines -A")
			}
			return r.show(out, explanation, explanation.Print)
		},
	}
	out.add(command, formatTable, formatJSON, formatYAML)
	return command
}
