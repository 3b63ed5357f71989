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

// between says how many names are missing or too many, and which command lists them.
func between(least, most int, kind, lister string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return &cluster.Error{Sentence: fmt.Sprintf("Name a %s: %s lists what there is.", kind, lister)}
		case len(args) > most:
			return &cluster.Error{Sentence: fmt.Sprintf("Name one %s at most, not %d: %s lists what there is.", kind, len(args), lister)}
		}
		return nil
	}
}

// completionTimeout is how long a shell waits for names.
const completionTimeout = 3 * time.Second

// nodePrefix is before the name of a node where other names are possible, too.
const nodePrefix = "node/"

// complete completes names that a function lists, and nodes as node/NAME if they are possible. Without an answer nothing
// is completed.
func (r *root) complete(several bool, list func(context.Context, *cluster.Clients) ([]string, error), nodes bool) cobra.CompletionFunc {
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
		prefix := ""
		if nodes && strings.HasPrefix(toComplete, nodePrefix) {
			list, prefix = cluster.NodeNames, nodePrefix
		}
		names, err := list(ctx, clients)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var fitting []string
		for _, name := range names {
			if name = prefix + name; strings.HasPrefix(name, toComplete) && !slices.Contains(args, name) {
				fitting = append(fitting, name)
			}
		}
		if nodes && len(fitting) == 0 && strings.HasPrefix(nodePrefix, toComplete) {
			return []string{nodePrefix}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp
	}
}
