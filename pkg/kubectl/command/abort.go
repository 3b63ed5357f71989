// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		Use:   "abort NAME --reason TEXT",
		Short: "Call back all remediations of a NodeHealthCheck that run",
		Long: `Pauses a NodeHealthCheck, as pause does, and deletes its remediation objects that run. It shows
them first, and asks. ` + Irrevocable + `.
The check stays paused until you resume it.`,
		Example:           `  kubectl nhc abort workers --reason "switch failure, not the nodes; ask Kim"`,
		Args:              exactlyOne(v1alpha1.Kind, "kubectl nhc status"),
		ValidArgsFunction: cobra.CompletionFunc(r.complete(false, cluster.NodeHealthCheckNames)),
	}, needsOperate+", and for delete on the remediation objects if it does not name their kind")
	command.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case strings.Contains(args[0], "/"):
			return &cluster.Error{Sentence: "Only NodeHealthChecks can be aborted: a Machine that is being deleted stays so."}
		case options.reason == "":
			return noReason("resume")
		}
		return c.each(command.Context(), args, v1alpha1.Kind, cluster.NodeHealthCheckNames, func(i *Intervener, name string) (Result, error) {
			return c.abort(command.Context(), i, name, &options)
		})
	}
	command.Flags().StringVar(&options.reason, "reason", "", "Why, and whom to ask")
	command.Flags().IntVar(&options.limit, "limit", abortedAtMost, "How many nodes at most")
	command.Flags().BoolVar(&options.yes, "yes", false, "Do not ask")
	return command
}

// abort returns the last one of several results, and reports the others.
func (c *change) abort(ctx context.Context, i *Intervener, name string, options *abortOptions) (Result, error) {
	running, err := i.Running(ctx, name)
	if err != nil {
		return Result{}, err
	}
	if err := TooMany(name, running, options.limit); err != nil {
		return Result{}, err
	}
	if len(running) == 0 {
		return Result{Resource: v1alpha1.Resource(v1alpha1.Plural), Name: name, Text: "has no remediation that runs"}, nil
	}
	if !options.yes && i.DryRun == DryRunNone {
		if err := c.agreed(name, running); err != nil {
			return Result{}, err
		}
	}
	results, err := i.Abort(ctx, name, options.reason, running)
	for _, result := range results[:max(0, len(results)-1)] {
		err = errors.Join(c.report(result), err)
	}
	if err != nil && len(results) > 0 {
		return Result{}, errors.Join(c.report(results[len(results)-1]), err)
	}
	if err != nil {
		return Result{}, err
	}
	return results[len(results)-1], nil
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

// Abort pauses a NodeHealthCheck, because it would create the objects again, and then deletes the remediation
// objects. It reports each change that was made, also if another one has failed.
func (i *Intervener) Abort(ctx context.Context, name, reason string, running []Running) ([]Result, error) {
	paused, err := i.Pause(ctx, name, reason)
	if err != nil {
		return nil, err
	}
	paused.Text = strings.TrimSuffix(paused.Text, finished)
	results := []Result{paused}
	for j := range running {
		result, err := i.abort(ctx, &running[j])
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

func (i *Intervener) abort(ctx context.Context, running *Running) (Result, error) {
	client, resource, err := i.Referred(&running.Resource)
	if err != nil {
		return Result{}, cluster.Explain(err, "delete", resource)
	}
	group := running.Resource.GroupVersionKind().Group
	result := Result{Resource: schema.GroupResource{Group: group, Resource: resource}, Name: running.Resource.Name, Changed: true, Text: "is deleted, for node " + running.Node}
	if i.DryRun == DryRunClient {
		return result, nil
	}
	err = client.Delete(ctx, running.Resource.Name, metav1.DeleteOptions{DryRun: i.sent(), Preconditions: &metav1.Preconditions{UID: &running.Resource.UID}})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // Another one has its name by now.
		result.Changed, result.Text = false, "is gone already, for node "+running.Node
	case err != nil:
		return Result{}, cluster.Explain(err, "delete", resource)
	}
	return result, nil
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
