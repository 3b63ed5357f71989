// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// defaultLeaseNamespace is where the controller keeps the leases of nodes (spec 3).
const defaultLeaseNamespace = "medik8s-leases"

// explainOptions are the flags of explain.
type explainOptions struct {
	out            output
	leaseNamespace string
}

func (r *root) explain() *cobra.Command {
	var options explainOptions
	command := &cobra.Command{
		Use:   "explain NODE | node/NODE | machine NAMESPACE/NAME",
		Short: "Explain why a node or a Machine is remediated, or why not",
		Long: `Compares the conditions of a node with each NodeHealthCheck that selects it, or says why none
does; what the controller has decided, and what happens next and when; the steps with their
remediation objects; the lease of the node; and recent events.

For a Machine: which MachineHealthChecks select it, and the same. To read the Machine itself you
need get on machines; without, it shows what MachineHealthChecks have reported.`,
		Example: `  kubectl nhc explain node-3
  kubectl nhc explain machine openshift-machine-api/worker-3`,
		GroupID: looking,
		Args: func(command *cobra.Command, args []string) error {
			_, rest := aboutMachine(args)
			return between(1, 1, "Node", "kubectl get nodes")(command, rest)
		},
		ValidArgsFunction: r.complete(false, cluster.NodeNames, true),
		RunE: func(command *cobra.Command, args []string) error {
			clients, err := r.clients()
			if err != nil {
				return err
			}
			machine, rest := aboutMachine(args)
			if machine {
				return r.explainMachine(command.Context(), clients, &options, rest[0])
			}
			name, _ := nodeOf(rest[0])
			return r.explainNode(command.Context(), clients, &options, cmp.Or(name, rest[0]))
		},
	}
	options.out.add(command)
	command.Flags().StringVar(&options.leaseNamespace, "lease-namespace", defaultLeaseNamespace, "Namespace of the leases of nodes")
	return command
}

// aboutMachine reports whether arguments name a Machine, and returns those without a kind. Only a
// Machine has a namespace.
func aboutMachine(args []string) (machine bool, rest []string) {
	if len(args) == 2 && slices.Contains([]string{"node", "nodes", "no", "machine", "machines"}, args[0]) {
		return strings.HasPrefix(args[0], "machine"), args[1:]
	}
	if len(args) == 1 {
		_, node := nodeOf(args[0])
		return strings.Contains(args[0], "/") && !node, args
	}
	return false, args
}

func (r *root) explainNode(ctx context.Context, clients *cluster.Clients, options *explainOptions, node string) error {
	snapshot, err := cluster.Read(ctx, clients, cluster.Everything)
	if err != nil {
		return err
	}
	details, err := cluster.ReadDetails(ctx, clients, snapshot, node, options.leaseNamespace)
	if err != nil {
		return err
	}
	explanation := view.NewExplanation(node, snapshot, details, r.Now())
	if explanation == nil {
		return notFound("Node", node, view.NodeNames(snapshot), "kubectl get nodes")
	}
	return r.show(&options.out, "Explanation", explanation, explanation.Print)
}

func (r *root) explainMachine(ctx context.Context, clients *cluster.Clients, options *explainOptions, machine string) error {
	namespace, name, both := strings.Cut(machine, "/")
	if !both {
		namespace, name = clients.Namespace, machine
	}
	if namespace == "" || name == "" {
		return &cluster.Error{Sentence: "Name the Machine as NAMESPACE/NAME, or give --namespace."}
	}
	snapshot, err := cluster.Read(ctx, clients, cluster.Kinds{Budgets: true, MachineHealthChecks: true, Leader: true})
	if err != nil {
		return err
	}
	read, err := cluster.ReadMachine(ctx, clients, snapshot, namespace, name)
	if err != nil {
		return err
	}
	explanation := view.NewMachineExplanation(namespace, name, snapshot, read, r.Now())
	switch {
	case explanation != nil:
		return r.show(&options.out, "MachineExplanation", explanation, explanation.Print)
	case len(snapshot.Missing) > 0:
		return &cluster.Error{Sentence: snapshot.Missing[0].Reason}
	default:
		return notFound("Machine", machine, nil, "kubectl get machines -A")
	}
}
