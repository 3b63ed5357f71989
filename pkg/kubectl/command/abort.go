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
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
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
	command := r.intervention(&cobra.Command{
		Use:   "abort CHECK --reason TEXT",
		Short: "Call back all remediations of a NodeHealthCheck that run",
		Long: `Pauses a NodeHealthCheck, as pause does, and deletes its remediation objects that run. It shows
them first, and asks. ` + irrevocable + `.
The check stays paused until you resume it.`,
		Example:           `  kubectl nhc abort workers --reason "switch failure, not the nodes; ask Kim"`,
		ValidArgsFunction: r.complete(false, cluster.Names(cluster.Kinds{}), false),
		Args: func(command *cobra.Command, args []string) error {
			err := between(1, 1, v1alpha1.Kind, nodeHealthCheck.lister)(command, args)
			switch {
			case err != nil:
				return err
			case targetOf(args[0]).subject != nodeHealthCheck:
				return &cluster.Error{Sentence: "Only NodeHealthChecks can be aborted: a Machine that is being deleted stays so."}
			case options.reason == "":
				return errNoReason
			}
			options.reason = view.Clean(options.reason) // A reason is one line.
			return nil
		},
	}, func(ctx context.Context, c *change, args []string) error {
		t := targetOf(args[0])
		err := c.explained(ctx, t, c.abort(ctx, t, &options))
		c.warn(ctx)
		return err
	})
	command.Flags().StringVar(&options.reason, "reason", "", "Why, and whom to ask")
	command.Flags().IntVar(&options.limit, "limit", abortedAtMost, "How many nodes at most")
	command.Flags().BoolVar(&options.yes, "yes", false, "Do not ask")
	return command
}

// abort pauses a NodeHealthCheck, because it would create the objects again, and then deletes its remediation objects. It
// reports each change that was made, also if another one fails.
func (c *change) abort(ctx context.Context, t target, options *abortOptions) error {
	running, err := c.running(ctx, t.name)
	if err != nil {
		return err
	}
	if len(running) == 0 {
		return c.print(t.String() + " has no remediation that runs.\n")
	}
	nodes := sets.New[string]()
	for i := range running {
		nodes.Insert(running[i].node)
	}
	if nodes := nodes.Len(); nodes > options.limit {
		return &cluster.Error{Sentence: fmt.Sprintf("%s remediates %d nodes, more than --limit %d: give a higher one if you mean all of them.", t, nodes, options.limit)}
	}
	if !options.yes && c.dryRun == "" {
		if err := c.agreed(t, running); err != nil {
			return err
		}
	}
	paused, err := c.pause(ctx, t, options.reason)
	if err != nil {
		return err
	}
	paused.text = "is paused"
	if err := c.report(paused); err != nil {
		return err
	}
	for i := range running {
		result, err := c.recall(ctx, &running[i])
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
func (c *change) agreed(t target, running []running) error {
	for i := range running {
		fmt.Fprintf(c.ErrOut, "  %s %s of node %s\n", running[i].Resource.Kind, running[i].Resource.Name, running[i].node)
	}
	fmt.Fprintf(c.ErrOut, "%s is paused, and these %d objects are deleted. %s.\nGo on? Type yes: ", t, len(running), irrevocable)
	answer, _ := bufio.NewReader(c.In).ReadString('\n') // No answer is no agreement.
	if strings.TrimSpace(answer) != "yes" {
		return &cluster.Error{Sentence: "Nothing was changed: answer yes, or give --yes."}
	}
	return nil
}

// running is a remediation object of a node.
type running struct {
	node string
	v1alpha1.Remediation
}

// running returns the remediation objects that a NodeHealthCheck reports, without those that timed out.
func (c *change) running(ctx context.Context, name string) (found []running, err error) {
	nhc, err := c.NHC.RemediationV1alpha1().NodeHealthChecks().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, cluster.Explain(err, "get", v1alpha1.Plural)
	}
	for i := range nhc.Status.UnhealthyNodes {
		entry := &nhc.Status.UnhealthyNodes[i]
		for _, remediation := range entry.Remediations {
			if remediation.TimedOut == nil {
				found = append(found, running{entry.Name, remediation})
			}
		}
	}
	return found, nil
}

// recall deletes a remediation object.
func (c *change) recall(ctx context.Context, running *running) (result, error) {
	reference := &running.Resource
	client, resource, err := c.Referred(reference)
	if err != nil {
		return result{}, cluster.Explain(err, "delete", resource)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(reference.GroupVersionKind())
	object.SetNamespace(reference.Namespace)
	object.SetName(reference.Name)
	made := result{title: reference.Kind + " " + reference.Name, object: object, changed: true, text: "is deleted, for node " + running.node}
	err = client.Delete(ctx, reference.Name, metav1.DeleteOptions{DryRun: c.sent(), Preconditions: &metav1.Preconditions{UID: &reference.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // Another one has its name by now.
		made.changed, made.text, err = false, "is gone already, for node "+running.node, nil
	}
	return made, cluster.Explain(err, "delete", resource)
}

// irrevocable names the effects that an abort cannot undo.
const irrevocable = "What a remediator has done already is not taken back: a power-off or a reboot that was sent, evicted pods, taints, the deletion of a Machine. " +
	"An object with a finalizer stays until its remediator has let go of it"
