// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// errEitherReason is about flags that exclude each other.
var errEitherReason = &cluster.Error{Sentence: "Give either --reason or --all-reasons."}

// machinePaused is the annotation that pauses a MachineHealthCheck.
const machinePaused = "cluster.x-k8s.io/paused"

func (r *root) pause() *cobra.Command {
	var (
		reason string
		all    bool
	)
	command, c := r.intervention(&cobra.Command{
		Use:   "pause NAME... --reason TEXT",
		Short: "Have NodeHealthChecks begin nothing new",
		Long: `Adds a reason to spec.pauseRequests. While there is one, the NodeHealthCheck begins nothing
new. Remediations that run are finished. The ClusterRole nhc-pause is enough.`,
		Example: `  kubectl nhc pause workers --reason "freeze 4711, ask Kim"
  kubectl nhc pause --all --reason "switch maintenance" --dry-run=server`,
		ValidArgsFunction: cobra.CompletionFunc(r.complete(true, cluster.NodeHealthCheckNames)),
	}, needsOperate)
	command.RunE = func(command *cobra.Command, args []string) error {
		if reason == "" {
			return noReason("resume")
		}
		return c.eachCheck(command.Context(), args, all, func(i *Intervener, name string) (Result, error) {
			return i.Pause(command.Context(), name, reason)
		})
	}
	command.Flags().StringVar(&reason, "reason", "", "Why, and whom to ask")
	command.Flags().BoolVar(&all, "all", false, "Pause all NodeHealthChecks")
	return command
}

func (r *root) resume() *cobra.Command {
	var (
		reason          string
		all, allReasons bool
	)
	command, c := r.intervention(&cobra.Command{
		Use:   "resume NAME... [--reason TEXT]",
		Short: "Have NodeHealthChecks go on that were paused",
		Long: `Removes a reason from spec.pauseRequests. Without --reason, the only one is removed: if there
are several, they are listed, because others may rely on theirs.`,
		Example: `  kubectl nhc resume workers
  kubectl nhc resume --all --reason "switch maintenance"`,
		ValidArgsFunction: cobra.CompletionFunc(r.complete(true, cluster.NodeHealthCheckNames)),
	}, needsOperate)
	command.RunE = func(command *cobra.Command, args []string) error {
		if reason != "" && allReasons {
			return errEitherReason
		}
		return c.eachCheck(command.Context(), args, all, func(i *Intervener, name string) (Result, error) {
			return i.Resume(command.Context(), name, reason, allReasons)
		})
	}
	command.Flags().StringVar(&reason, "reason", "", "Which one of the pause requests to remove")
	command.Flags().BoolVar(&allReasons, "all-reasons", false, "Remove all pause requests, also those of others")
	command.Flags().BoolVar(&all, "all", false, "Resume all NodeHealthChecks")
	return command
}

// eachCheck does the same to the NodeHealthChecks that are named, or to all of them.
func (c *change) eachCheck(ctx context.Context, names []string, all bool, do func(*Intervener, string) (Result, error)) error {
	for _, name := range names {
		if namespace, machineCheck, is := strings.Cut(name, "/"); is {
			return &cluster.Error{Sentence: fmt.Sprintf("A MachineHealthCheck is paused by an annotation: kubectl annotate machinehealthchecks.machine.openshift.io -n %s %s %s=true, and %[3]s- to resume.", namespace, machineCheck, machinePaused)}
		}
	}
	if all == (len(names) > 0) {
		return &cluster.Error{Sentence: "Name the NodeHealthChecks, or give --all."}
	}
	if all {
		clients, err := c.clients()
		if err != nil {
			return err
		}
		if names, err = cluster.NodeHealthCheckNames(ctx, clients); err != nil {
			return c.needed(err)
		}
	}
	return c.each(ctx, names, v1alpha1.Kind, cluster.NodeHealthCheckNames, do)
}

// noReason says that a reason is missing, and which command needs it later.
func noReason(command string) error {
	return &cluster.Error{Sentence: "Say why, with --reason: others see it, and " + command + " by it."}
}

// finished says what a pause means for running remediations.
const finished = ", and remediations that run are finished"

// Pause adds a reason to the pause requests of a NodeHealthCheck (spec 10.1). Reasons of others stay.
func (i *Intervener) Pause(ctx context.Context, name, reason string) (Result, error) {
	return i.setPauseRequests(ctx, name, func(requests []string) ([]string, string, error) {
		if slices.Contains(requests, reason) {
			return requests, "is paused for this reason already", nil
		}
		return append(slices.Clone(requests), reason), "is paused. Nothing new begins" + finished, nil
	})
}

// Resume removes a reason from the pause requests of a NodeHealthCheck, or the only one if no
// reason is given. With all, it removes all of them.
func (i *Intervener) Resume(ctx context.Context, name, reason string, all bool) (Result, error) {
	return i.setPauseRequests(ctx, name, func(requests []string) ([]string, string, error) {
		var left []string
		switch {
		case len(requests) == 0:
			return requests, "is not paused", nil
		case all:
		case reason == "" && len(requests) > 1:
			return nil, "", &cluster.Error{Sentence: fmt.Sprintf("NodeHealthCheck %s has %d pause requests: name one with --reason, or use --all-reasons: %s.", name, len(requests), quoted(requests))}
		case reason != "" && !slices.Contains(requests, reason):
			return requests, "is not paused for this reason, but still for " + quoted(requests), nil
		case reason != "":
			left = slices.DeleteFunc(slices.Clone(requests), func(request string) bool { return request == reason })
		}
		if len(left) > 0 {
			return left, "is still paused for " + quoted(left), nil
		}
		return nil, "goes on. It was paused for " + quoted(requests), nil
	})
}

func quoted(texts []string) string {
	all := make([]string, 0, len(texts))
	for _, text := range texts {
		all = append(all, fmt.Sprintf("%q", text))
	}
	return strings.Join(all, ", ")
}

// setPauseRequests writes the pause requests that change makes of those that are there. The list is
// replaced as a whole, so the write is bound to the version that was read.
func (i *Intervener) setPauseRequests(ctx context.Context, name string, change func([]string) (requests []string, text string, err error)) (Result, error) {
	client := i.NHC.RemediationV1alpha1().NodeHealthChecks()
	return untilCurrent(ctx, func(ctx context.Context) (Result, error) {
		nhc, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return Result{}, cluster.Explain(err, "get", v1alpha1.Plural)
		}
		result := Result{Resource: v1alpha1.Resource(v1alpha1.Plural), Name: name, Object: nhc}
		requests, text, err := change(nhc.Spec.PauseRequests)
		if err != nil {
			return Result{}, err
		}
		result.Text, result.Changed = text, !slices.Equal(requests, nhc.Spec.PauseRequests)
		if !result.Changed {
			return result, nil
		}
		if i.DryRun == DryRunClient {
			nhc.Spec.PauseRequests = requests
			return result, nil
		}
		var value any // Without any request, the field goes.
		if len(requests) > 0 {
			value = requests
		}
		body, err := patchOf(nhc, true, map[string]any{"spec": map[string]any{"pauseRequests": value}})
		if err != nil {
			return Result{}, err
		}
		patched, err := client.Patch(ctx, name, types.MergePatchType, body, i.patchOptions())
		if err != nil {
			return Result{}, explainWrite(err, "patch", v1alpha1.Plural)
		}
		result.Object = patched
		return result, nil
	})
}
