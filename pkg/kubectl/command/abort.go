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
	}, "ask for the ClusterRole nhc-pause, and for delete on the remediation objects, which no shipped role permits")
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
