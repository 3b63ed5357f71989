// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// nearest is how many names an error proposes.
const nearest = 3

// notFound says that there is no object of a name, and which names are like it. The command lists
// all of them.
func notFound(kind, name string, names []string, command string) error {
	if like := proposals(name, names); len(like) > 0 {
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
	var names []string
	for _, other := range command.Commands() {
		if other.IsAvailableCommand() {
			names = append(names, other.Name())
		}
	}
	return notFound("command", args[0], names, command.CommandPath()+" --help")
}

// unknownFlag says which flag may have been meant.
func unknownFlag(command *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	switch {
	case !ok:
		return err
	case unknown.GetSpecifiedName() == "A" || unknown.GetSpecifiedName() == "all-namespaces":
		return &cluster.Error{Sentence: "Leave out -A: all namespaces are shown, unless --namespace names one."}
	}
	var names []string
	command.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
	return notFound("flag", "--"+unknown.GetSpecifiedName(), names, command.CommandPath()+" --help")
}

// proposals returns the names that are nearest to one that does not exist, but none that is
// quite different.
func proposals(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var candidates []candidate
	for _, other := range names {
		d := distance(name, other)
		if strings.HasPrefix(other, name) || strings.Contains(other, name) && len(name) > 2 {
			d = min(d, 1)
		}
		if d <= max(2, len(name)/3) {
			candidates = append(candidates, candidate{other, d})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return a.distance - b.distance })
	found := make([]string, 0, nearest)
	for _, c := range candidates[:min(len(candidates), nearest)] {
		if c.distance == candidates[0].distance {
			found = append(found, c.name)
		}
	}
	return found
}

// distance returns how many characters have to be inserted, deleted or replaced to make one name
// of the other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
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

// completeFlags completes the names of contexts, clusters and users of the kubeconfig.
func (r *root) completeFlags(command *cobra.Command) {
	for _, flag := range []string{"context", "cluster", "user"} {
		_ = command.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { // The flag exists.
			config, err := r.config.ToRawKubeConfigLoader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names := slices.Sorted(maps.Keys(config.AuthInfos))
			switch flag {
			case "context":
				names = slices.Sorted(maps.Keys(config.Contexts))
			case "cluster":
				names = slices.Sorted(maps.Keys(config.Clusters))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		})
	}
}
