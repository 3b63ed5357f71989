// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// scope says what pause and resume are about.
type scope struct {
	reason, selector string
	all, cluster     bool
}

func (r *root) pause() *cobra.Command {
	return r.scoped(&cobra.Command{
		Use:   "pause CHECK... | node/NAME... | --selector LABELS | --all | --cluster",
		Short: "Have nothing begin: for health checks, for nodes, or in the cluster",
		Long: `While something is paused, no remediation and no next step begins. Remediations that run go on.
Reasons of others stay.

CHECK is the name of a NodeHealthCheck, or NAMESPACE/NAME of a MachineHealthCheck. A node is
paused for all health checks, by the label remediation.medik8s.io/exclude-from-remediation; it
still counts as not healthy if it is. --cluster creates the RemediationBudget ` + view.PauseBudget + `, which
selects all nodes and permits nothing: it is for health checks that are created later, too.`,
		Example: `  kubectl nhc pause workers --reason "freeze 4711, ask Kim"
  kubectl nhc pause node/node-3 --reason "disk is replaced, ask Kim"
  kubectl nhc pause -l topology.kubernetes.io/zone=a --reason "power maintenance"
  kubectl nhc pause --cluster --reason "Incident 4711, ask the storage team"`,
	}, true)
}

func (r *root) resume() *cobra.Command {
	return r.scoped(&cobra.Command{
		Use:   "resume CHECK... | node/NAME... | --selector LABELS | --all | --cluster",
		Short: "End a pause",
		Long: `Ends a pause of the same scope. Without --reason, the only reason is removed: if there are several,
they are listed, because others may rely on theirs.

With --cluster, each RemediationBudget that still lets nothing begin is named with the command
that ends it, and the exit code is 1.`,
		Example: `  kubectl nhc resume workers
  kubectl nhc resume node/node-3
  kubectl nhc resume --cluster`,
	}, false)
}

// scoped completes a command about a scope. One that begins a pause needs a reason.
func (r *root) scoped(command *cobra.Command, begins bool) *cobra.Command {
	var options scope
	command.ValidArgsFunction = r.complete(true, cluster.Names(cluster.Kinds{MachineHealthChecks: true}), true)
	command.Args = func(_ *cobra.Command, args []string) error { return options.check(args, begins) }
	why, do, last := "Which one of the reasons to remove", (*change).resume, (*change).stops
	if begins {
		why, do, last = "Why, and whom to ask", (*change).pause, (*change).takenIn
	}
	command.Flags().StringVar(&options.reason, "reason", "", why)
	command.Flags().StringVarP(&options.selector, "selector", "l", "", "All nodes with these labels")
	command.Flags().BoolVar(&options.all, "all", false, "All NodeHealthChecks and MachineHealthChecks")
	command.Flags().BoolVar(&options.cluster, "cluster", false, "The whole cluster")
	return r.intervention(command, func(ctx context.Context, c *change, args []string) error {
		targets, missing := options.targets(ctx, c.Clients, args)
		err := c.each(ctx, targets, func(ctx context.Context, t target) (result, error) { return do(c, ctx, t, options.reason) })
		if options.cluster && err == nil {
			err = last(c, ctx)
		}
		if !options.cluster || !begins { // Then takenIn has looked.
			c.warn(ctx)
		}
		return errors.Join(err, missing)
	})
}

// check reports what is wrong with the arguments and flags.
func (s *scope) check(args []string, begins bool) error {
	given := 0
	for _, is := range []bool{len(args) > 0, s.selector != "", s.all, s.cluster} {
		if is {
			given++
		}
	}
	s.reason = view.Clean(s.reason) // A reason is one line.
	if given != 1 {
		return &cluster.Error{Sentence: "Name health checks or nodes (node/NAME), or give one of --selector, --all and --cluster."}
	}
	if begins && s.reason == "" {
		return errNoReason
	}
	return nil
}

// targets returns what is meant. With an error, it is not all.
func (s *scope) targets(ctx context.Context, clients *cluster.Clients, args []string) (targets []target, err error) {
	switch {
	case s.cluster:
		return []target{theCluster}, nil
	case s.selector != "":
		nodes, err := clients.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: s.selector})
		if err != nil {
			return nil, cluster.Explain(err, "list", "nodes")
		}
		if len(nodes.Items) == 0 {
			return nil, &cluster.Error{Sentence: fmt.Sprintf("No node has labels %s.", s.selector)}
		}
		for i := range nodes.Items {
			targets = append(targets, target{node, "", nodes.Items[i].Name})
		}
		return targets, nil
	case s.all:
		snapshot, readErr := cluster.Read(ctx, clients, cluster.Kinds{MachineHealthChecks: true})
		if readErr != nil {
			return nil, readErr
		}
		args = view.Checks(snapshot)
		if len(snapshot.Missing) > 0 {
			err = &cluster.Error{Sentence: "MachineHealthChecks are left out. " + snapshot.Missing[0].Reason}
		}
	}
	for _, name := range args {
		targets = append(targets, targetOf(name))
	}
	return targets, err
}

// errNoReason says that a reason is missing.
var errNoReason = &cluster.Error{Sentence: "Say why, with --reason: others see it, and resume by it."}

// pause adds a reason to those of a target. Reasons of others stay.
func (c *change) pause(ctx context.Context, t target, reason string) (result, error) {
	return c.setReasons(ctx, t, func(reasons []string) ([]string, string, error) {
		if slices.Contains(reasons, reason) {
			return reasons, "is paused for this reason already", nil
		}
		reasons = slices.DeleteFunc(slices.Clone(reasons), func(other string) bool { return other == "" })
		return append(reasons, reason), "is paused: no remediation and no next step begins. What runs goes on", nil
	})
}

// resume removes a reason from those of a target, or the only one if no reason is given.
func (c *change) resume(ctx context.Context, t target, reason string) (result, error) {
	return c.setReasons(ctx, t, func(reasons []string) (left []string, text string, err error) {
		switch {
		case len(reasons) == 0:
			return reasons, "is not paused", nil
		case reason == "" && len(reasons) > 1:
			return nil, "", found{&cluster.Error{Sentence: fmt.Sprintf("%s is paused for %d reasons: name one with --reason: %s.", t, len(reasons), quoted(reasons))}}
		case reason != "" && !slices.Contains(reasons, reason):
			return reasons, "is not paused for this reason, but still for " + quoted(reasons), nil
		case reason != "":
			left = slices.DeleteFunc(slices.Clone(reasons), func(other string) bool { return other == reason })
		}
		switch {
		case len(left) > 0:
			return left, "is still paused for " + quoted(left), nil
		case reasons[0] == "":
			return nil, "goes on. No reason was given", nil
		default:
			return nil, "goes on. It was paused for " + quoted(reasons), nil
		}
	})
}

// setReasons writes the reasons that change makes of those that are there.
func (c *change) setReasons(ctx context.Context, t target, change func([]string) (reasons []string, text string, err error)) (result, error) {
	return c.update(ctx, t, func(object *unstructured.Unstructured) (string, error) {
		var before []string
		if object.Object != nil {
			before = t.reasons(object)
		}
		reasons, text, err := change(before)
		switch {
		case err != nil || slices.Equal(reasons, before):
			return text, err
		case t.temporary && object.Object != nil && before == nil:
			return "", &cluster.Error{Sentence: fmt.Sprintf("There is a %s %s that does not stop everything: give it another name.", t.kind, t.name)}
		}
		t.set(object, reasons)
		return text, nil
	})
}

const (
	// patience is how long a controller may take to take a pause of the cluster in. It needs two seconds (spec B4.2).
	patience = 10 * time.Second
	// glance is the time between two looks.
	glance = 500 * time.Millisecond
)

// takenIn waits until a controller has taken the pause of the cluster in, and says what is missing if none does.
func (c *change) takenIn(ctx context.Context) error {
	if c.dryRun != "" {
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, glance, c.patience, true, func(ctx context.Context) (bool, error) {
		budget, err := c.NHC.NHCV1alpha1().RemediationBudgets().Get(ctx, theCluster.name, metav1.GetOptions{})
		return err == nil && budget.Status.ObservedGeneration >= budget.Generation, nil
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return cluster.Explain(ctx.Err(), "get", nhcv1alpha1.BudgetPlural)
	}
	leader, _ := cluster.ReadLeader(ctx, c.Clients) // Without an answer, the general advice is given.
	missing := cmp.Or(leader.Problem(c.Now()), "The controller has not taken the budget in. kubectl nhc check shows why.")
	return found{&cluster.Error{Sentence: "The pause has no effect yet. " + missing}}
}

// stops names the budgets that still let nothing begin, and how to end each. In a dry run, the budget of the plugin is there
// still.
func (c *change) stops(ctx context.Context) error {
	budgets, err := c.NHC.NHCV1alpha1().RemediationBudgets().List(ctx, metav1.ListOptions{})
	if err != nil {
		return cluster.Explain(err, "list", nhcv1alpha1.BudgetPlural)
	}
	var errs []error
	for j := range budgets.Items {
		one := &budgets.Items[j]
		if !budget.Parse(one).StopsAll() || one.Name == theCluster.name && c.dryRun != "" {
			continue
		}
		reason := strings.ReplaceAll(strings.TrimSuffix(cmp.Or(one.Spec.Reason, "no reason is given"), "."), "\n", "; ")
		errs = append(errs, found{&cluster.Error{Sentence: fmt.Sprintf("RemediationBudget %s still lets nothing begin: %s. To end it: %s", one.Name, reason, view.EndOf(one))}})
	}
	return errors.Join(errs...)
}
