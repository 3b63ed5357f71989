// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// notFound says that there is no object of a name. It proposes up to three names that begin like it, or else the
// command that lists all of them.
func notFound(kind, name string, names []string, command string) error {
	like := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return !strings.HasPrefix(other, name) })
	return proposing(kind, name, like[:min(len(like), 3)], command)
}

func proposing(kind, name string, like []string, command string) error {
	if len(like) > 0 {
		return &cluster.Error{Sentence: fmt.Sprintf("There is no %s %q: did you mean %s?", kind, name, strings.Join(like, " or "))}
	}
	return &cluster.Error{Sentence: fmt.Sprintf("There is no %s %q: %s lists what there is.", kind, name, command)}
}

// exactlyOne and atLeastOne say what is missing, and which command lists it.
func exactlyOne(kind, lister string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return &cluster.Error{Sentence: fmt.Sprintf("Name one %s, not %d: %s lists what there is.", kind, len(args), lister)}
	}
}

func atLeastOne(kind, lister string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return &cluster.Error{Sentence: fmt.Sprintf("Name at least one %s: %s lists what there is.", kind, lister)}
	}
}

func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	return &cluster.Error{Sentence: fmt.Sprintf("Name one at most, not %d: kubectl nhc status lists what there is.", len(args))}
}

// subcommand says which command may have been meant.
func subcommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	command.SuggestionsMinimumDistance = 2 // As cobra has it.
	return proposing("command", args[0], command.SuggestionsFor(args[0]), command.CommandPath()+" --help")
}

// completionTimeout is how long a shell waits for names.
const completionTimeout = 3 * time.Second

// completion completes the names of arguments.
type completion func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// complete completes names that a function lists. Without an answer nothing is completed.
func (r *root) complete(several bool, list func(context.Context, *cluster.Clients) ([]string, error)) completion {
	return func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		clients, err := r.clients()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
		defer cancel()
		names, err := list(ctx, clients)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, toComplete) || slices.Contains(args, name) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
