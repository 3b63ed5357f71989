// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/admission"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	out            output
	files, against []string
}

func (r *root) replay() *cobra.Command {
	var options replayOptions
	command := &cobra.Command{
		Use:   "replay [-f FILE] [--against FILE] RECORDING",
		Short: "Show what other health checks would have done about recorded nodes",
		Long: `Replays what kubectl nhc record has recorded, and shows which remediations would have
started, or not, or at another time, with the NodeHealthChecks and RemediationBudgets of
files instead of those in the cluster. It plans as the controller does, and reads only.

Those in files take the place of those of the same name in the cluster. With --against no
cluster is asked: those files are compared with the ones of -f. Without -f, it shows what
those of the cluster do.

Nodes change as they were recorded, whatever is done about them here: a node that a
remediation has repaired recovers at the same time without it. Remediations and storms that
had begun before the recording are not known. Templates are taken to exist, and Machines
are not looked at.

With -o wide it also shows all that happens, one after the other.`,
		Example: `  kubectl nhc replay -f nhc.yaml storm.jsonl
  kubectl nhc replay -f new.yaml --against old.yaml storm.jsonl
  kubectl nhc replay -o wide storm.jsonl`,
		GroupID: looking,
		Args:    oneRecording,
		RunE: func(command *cobra.Command, args []string) error {
			return r.runReplay(command.Context(), &options, args[0])
		},
	}
	options.out.add(command, formatTable, formatWide, formatJSON, formatYAML)
	command.Flags().StringSliceVarP(&options.files, "filename", "f", nil, "Files or directories with NodeHealthChecks and RemediationBudgets, or - for standard input")
	command.Flags().StringSliceVar(&options.against, "against", nil, "Files or directories to compare with, instead of the cluster")
	return command
}

func oneRecording(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &cluster.Error{Sentence: "Name one recording: kubectl nhc replay -f FILE RECORDING."}
	}
	return nil
}

// configuration has the objects that decide in a replay.
type configuration struct {
	// source says where it comes from.
	source  string
	checks  []*v1alpha1.NodeHealthCheck
	budgets []*v1alpha1.RemediationBudget
}

// configurations are the configurations of a replay.
type configurations struct {
	after configuration
	// before is the configuration to compare with, nil if there is none.
	before  *configuration
	notes   []string
	missing []view.Missing
}

func (r *root) runReplay(ctx context.Context, options *replayOptions, file string) error {
	used := 0
	for _, name := range slices.Concat(options.files, options.against, []string{file}) {
		if name == admission.StandardInput {
			used++
		}
	}
	switch {
	case used > 1:
		return &cluster.Error{Sentence: "Standard input can be read once only: give a file for all but one of RECORDING, --filename and --against."}
	case len(options.against) > 0 && len(options.files) == 0:
		return &cluster.Error{Sentence: "Give the files to compare with those of --against: kubectl nhc replay -f FILE --against FILE RECORDING."}
	}
	from, err := r.readRecording(file)
	if err != nil {
		return err
	}
	both, err := r.configurations(ctx, options)
	if err != nil {
		return err
	}
	replay := &simulation.Replay{Recorded: simulation.NewRecorded(sourceNames(file), from), Configuration: both.after.source}
	var before *simulation.Result
	var simulating sync.WaitGroup
	if both.before != nil {
		simulating.Go(func() {
			before = replayed(ctx, from, both.before)
			before.Timeline = nil // It is not compared, and is most of the result.
		})
	}
	replay.Result = replayed(ctx, from, &both.after)
	simulating.Wait()
	if err := ctx.Err(); err != nil {
		return cluster.Explain(err, "replay", "the recording")
	}
	replay.Notes = slices.Concat(replay.Notes, from.Notes, both.notes)
	replay.Missing = both.missing
	if before != nil {
		replay.Comparison = simulation.Compare(both.before.source, before, replay.Result)
	}
	return r.show(options.out, replay, func(printer *view.Printer) {
		replay.Print(printer, options.out.format == formatWide, r.Now().Location())
	})
}

// replayed returns the replay of a recording with a configuration. It is incomplete if the context ends.
func replayed(ctx context.Context, from *simulation.Recording, with *configuration) *simulation.Result {
	in := simulation.NewReplay(from)
	in.Checks, in.Budgets = with.checks, with.budgets
	in.Interrupted = func() bool { return ctx.Err() != nil }
	return simulation.Run(in)
}

// readRecording reads a recording.
func (r *root) readRecording(name string) (*simulation.Recording, error) {
	in := r.In
	if name != admission.StandardInput {
		file, err := os.Open(name)
		if err != nil {
			return nil, &cluster.Error{Sentence: fmt.Sprintf("Cannot read the recording: %v.", err), Cause: err}
		}
		defer file.Close()
		in = file
	}
	from, err := simulation.Read(in)
	if err != nil {
		return nil, &cluster.Error{Sentence: fmt.Sprintf("%s %v.", sourceNames(name), err), Cause: err}
	}
	return from, nil
}

// sourceNames names files for people.
func sourceNames(files ...string) string {
	names := slices.Clone(files)
	for i := range names {
		if names[i] == admission.StandardInput {
			names[i] = "standard input"
		}
	}
	return strings.Join(names, ", ")
}

// configurations reads what is to be replayed.
func (r *root) configurations(ctx context.Context, options *replayOptions) (*configurations, error) {
	files, notes, err := r.replayedFiles(ctx, options.files)
	if err != nil {
		return nil, err
	}
	both := &configurations{notes: notes}
	if len(options.against) > 0 {
		against, more, err := r.replayedFiles(ctx, options.against)
		if err != nil {
			return nil, err
		}
		both.notes = append(both.notes, more...)
		both.before = replacedIn(&view.Snapshot{}, against, sourceNames(options.against...))
	} else if err := r.addCluster(ctx, both, len(files.NodeHealthChecks) > 0); err != nil {
		return nil, err
	}
	switch {
	case len(options.files) == 0:
		both.after, both.before = *both.before, nil
	case len(options.against) > 0 || both.before == nil:
		both.after = *replacedIn(&view.Snapshot{}, files, sourceNames(options.files...))
	default:
		stored := &view.Snapshot{NodeHealthChecks: both.before.checks, Budgets: both.before.budgets}
		both.after = *replacedIn(stored, files, sourceNames(options.files...))
	}
	if len(both.after.checks) == 0 {
		return nil, &cluster.Error{Sentence: "There is no NodeHealthCheck to replay: give one with --filename."}
	}
	if both.before != nil && len(both.before.checks) == 0 {
		both.notes = append(both.notes, fmt.Sprintf("There is nothing to compare with: no NodeHealthCheck in %s. Give some with --against.", both.before.source))
		both.before = nil
	}
	return both, nil
}

// replayedFiles reads files, which must have something that can be replayed.
func (r *root) replayedFiles(ctx context.Context, files []string) (*view.Snapshot, []string, error) {
	found, notes, err := r.simulatedFiles(ctx, files)
	if err == nil && len(files) > 0 && len(found.NodeHealthChecks)+len(found.Budgets) == 0 {
		err = &cluster.Error{Sentence: fmt.Sprintf("There is no NodeHealthCheck or RemediationBudget in %s: name a file that has some.", sourceNames(files...))}
	}
	return found, notes, err
}

// replacedIn returns the stored objects. An object in the files replaces the stored one of that name.
func replacedIn(stored, files *view.Snapshot, source string) *configuration {
	return &configuration{
		source:  source,
		checks:  replaced(stored.NodeHealthChecks, files.NodeHealthChecks, func(_, _ *v1alpha1.NodeHealthCheck) {}),
		budgets: replaced(stored.Budgets, files.Budgets, func(_, _ *v1alpha1.RemediationBudget) {}),
	}
}

// addCluster adds the objects of the cluster. If they are optional, unreadable kinds are
// missing.
func (r *root) addCluster(ctx context.Context, both *configurations, optional bool) error {
	limited, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	clients, err := r.clients()
	var stored *view.Snapshot
	if err == nil {
		stored, err = cluster.Read(limited, clients, cluster.Kinds{Budgets: true})
	}
	switch {
	case err != nil && (!optional || ctx.Err() != nil):
		return err
	case err != nil:
		both.missing = []view.Missing{{Resource: "a comparison with the cluster", Reason: err.Error() + " To compare with files, give --against."}}
		return nil
	}
	before := &configuration{source: "the cluster"}
	for _, nhc := range stored.NodeHealthChecks { // Their status is of another time.
		before.checks = append(before.checks, &v1alpha1.NodeHealthCheck{ObjectMeta: nhc.ObjectMeta, Spec: nhc.Spec})
	}
	for _, budget := range stored.Budgets {
		before.budgets = append(before.budgets, &v1alpha1.RemediationBudget{ObjectMeta: budget.ObjectMeta, Spec: budget.Spec})
	}
	both.before, both.missing = before, stored.Missing
	return nil
}
