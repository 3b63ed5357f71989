// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// abortOptions are the flags of abort.
type abortOptions struct {
	reason string
	limit  int
	yes    bool
}

// abortedAtMost is how many nodes abort takes at once, unless the user asks for more.
const abortedAtMost = 10

func (r *root) abort() *cobra.Command {
	var options abortOptions
	command, c := r.intervention(&cobra.Command{
		Use:   "abort CHECK --reason TEXT",
		Short: "Call back all remediations of a NodeHealthCheck that run",
		Long: `Pauses a NodeHealthCheck, as pause does, and deletes its remediation objects that run. It shows
them first, and asks. ` + Irrevocable + `.
The check stays paused until you resume it. It takes delete on the remediation objects, which no
shipped role permits.`,
		Example:           `  kubectl nhc abort workers --reason "switch failure, not the nodes; ask Kim"`,
		Args:              between(1, 1, v1alpha1.Kind, "kubectl nhc status"),
		ValidArgsFunction: r.complete(false, cluster.NodeHealthCheckNames, false),
	})
	command.RunE = func(command *cobra.Command, args []string) error {
		t := targetOf(args[0])
		switch {
		case t.subject != nodeHealthCheck:
			return &cluster.Error{Sentence: "Only NodeHealthChecks can be aborted: a Machine that is being deleted stays so."}
		case options.reason == "":
			return errNoReason
		}
		i, err := c.intervener()
		if err != nil {
			return err
		}
		err = c.abort(command.Context(), i, t, &options)
		if apierrors.IsNotFound(err) && !cluster.NotServed(err) {
			err = i.notFound(command.Context(), t)
		}
		c.warn(command.Context(), i.Clients)
		return err
	}
	command.Flags().StringVar(&options.reason, "reason", "", "Why, and whom to ask")
	command.Flags().IntVar(&options.limit, "limit", abortedAtMost, "How many nodes at most")
	command.Flags().BoolVar(&options.yes, "yes", false, "Do not ask")
	return command
}

// abort pauses a NodeHealthCheck, because it would create the objects again, and then deletes its remediation objects. It
// reports each change that was made, also if another one fails.
func (c *change) abort(ctx context.Context, i *Intervener, t target, options *abortOptions) error {
	running, err := i.Running(ctx, t.name)
	if err != nil {
		return err
	}
	if err := TooMany(t.name, running, options.limit); err != nil {
		return err
	}
	if len(running) == 0 {
		return c.print(t.String() + " has no remediation that runs.\n")
	}
	if !options.yes && i.DryRun == DryRunNone {
		if err := c.agreed(t.name, running); err != nil {
			return err
		}
	}
	paused, err := i.Pause(ctx, t, options.reason)
	if err != nil {
		return err
	}
	paused.Text = "is paused"
	if err := c.report(paused); err != nil {
		return err
	}
	for j := range running {
		result, err := i.recall(ctx, &running[j])
		if err == nil {
			err = c.report(result)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// agreed asks whether to go on.
func (c *change) agreed(name string, running []Running) error {
	for i := range running {
		fmt.Fprintln(c.ErrOut, "  "+running[i].String())
	}
	fmt.Fprintf(c.ErrOut, "NodeHealthCheck %s is paused, and these %d objects are deleted. %s.\nGo on? Type yes: ", name, len(running), Irrevocable)
	answer, _ := bufio.NewReader(c.In).ReadString('\n') // No answer is no agreement.
	if strings.TrimSpace(answer) != "yes" {
		return &cluster.Error{Sentence: "Nothing was changed: answer yes, or give --yes."}
	}
	return nil
}

// Running is a remediation object of a node.
type Running struct {
	Node string
	v1alpha1.Remediation
}

// String names the object and its node.
func (r *Running) String() string {
	return r.Resource.Kind + " " + r.Resource.Name + " of node " + r.Node
}

// Running returns the remediation objects that a NodeHealthCheck reports, without those that timed out.
func (i *Intervener) Running(ctx context.Context, name string) (running []Running, err error) {
	nhc, err := i.NHC.RemediationV1alpha1().NodeHealthChecks().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, cluster.Explain(err, "get", v1alpha1.Plural)
	}
	for j := range nhc.Status.UnhealthyNodes {
		node := &nhc.Status.UnhealthyNodes[j]
		for _, remediation := range node.Remediations {
			if remediation.TimedOut == nil {
				running = append(running, Running{Node: node.Name, Remediation: remediation})
			}
		}
	}
	return running, nil
}

// recall deletes a remediation object.
func (i *Intervener) recall(ctx context.Context, running *Running) (Result, error) {
	reference := &running.Resource
	client, resource, err := i.Referred(reference)
	if err != nil {
		return Result{}, cluster.Explain(err, "delete", resource)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(reference.GroupVersionKind())
	object.SetNamespace(reference.Namespace)
	object.SetName(reference.Name)
	result := Result{Title: reference.Kind + " " + reference.Name, Object: object, Changed: true, Text: "is deleted, for node " + running.Node}
	if i.DryRun != DryRunClient {
		err = client.Delete(ctx, reference.Name, metav1.DeleteOptions{DryRun: i.sent(), Preconditions: &metav1.Preconditions{UID: &reference.UID}})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // Another one has its name by now.
		result.Changed, result.Text, err = false, "is gone already, for node "+running.Node, nil
	}
	return result, cluster.Explain(err, "delete", resource)
}

// Irrevocable names the effects that an abort cannot undo.
const Irrevocable = "What a remediator has done already is not taken back: a power-off or a reboot that was sent, evicted pods, taints, the deletion of a Machine. " +
	"An object with a finalizer stays until its remediator has let go of it"

// TooMany refuses an abort of more nodes than the user expects.
func TooMany(name string, running []Running, limit int) error {
	nodes := sets.New[string]()
	for i := range running {
		nodes.Insert(running[i].Node)
	}
	if nodes := nodes.Len(); nodes > limit {
		return &cluster.Error{Sentence: fmt.Sprintf("NodeHealthCheck %s remediates %d nodes, more than --limit %d: give a higher one if you mean all of them.", name, nodes, limit)}
	}
	return nil
}
