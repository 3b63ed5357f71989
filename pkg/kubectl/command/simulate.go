// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/admission"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	out                   output
	files                 []string
	nodes, replay         string
	fail, recover         []string
	duration, repairAfter time.Duration
}

func (r *root) simulate() *cobra.Command {
	var options simulateOptions
	command := &cobra.Command{
		Use:   "simulate [-f FILE] [--nodes FILE] [--fail NODE,...@TIME] [--replay FILE]",
		Short: "Show what health checks would do if nodes fail, in simulated time",
		Long: `Simulates what NodeHealthChecks and RemediationBudgets, as they are or as files have them, would
do on the nodes of the cluster, or on those of a file: "kubectl get nodes -o yaml" prints one. It
plans as the controller does. It reads only, and needs no installation. What is in files takes the
place of those of the same name in the cluster.

The nodes of --fail become Ready=Unknown, at once or so long after the start: node-1,node-2@90s. A
remediation makes its node healthy after --repair-after, unless its step has timed out before;
with 0 it never does. Other nodes become healthy with --recover.

With --replay, nodes change as in a file that "kubectl get nodes --watch --output-watch-events
-o json" has written, whatever is done about them here. To compare two configurations, replay the
same file with each.

Templates are taken to exist, and Machines are not looked at: kubectl nhc lint checks them.`,
		Example: `  kubectl nhc simulate -f nhc.yaml --fail node-3,node-4@2m
  kubectl nhc simulate --fail node-3 --repair-after 0
  kubectl nhc simulate -f nhc.yaml -f budget.yaml --nodes nodes.yaml --fail a-1,a-2,a-3 --for 2h
  kubectl nhc simulate --replay storm.json -f new.yaml`,
		GroupID: looking,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return r.runSimulate(command.Context(), &options)
		},
	}
	options.out.add(command)
	command.Flags().StringSliceVarP(&options.files, "filename", "f", nil, "Files or directories with NodeHealthChecks and RemediationBudgets, or - for standard input")
	command.Flags().StringVar(&options.nodes, "nodes", "", "File with Nodes, or - for standard input: ask no cluster")
	command.Flags().StringArrayVar(&options.fail, "fail", nil, "NODE[,NODE...][@TIME]: nodes that become Ready=Unknown, so long after the start")
	command.Flags().StringArrayVar(&options.recover, "recover", nil, "NODE[,NODE...][@TIME]: nodes that become healthy, so long after the start")
	command.Flags().DurationVar(&options.duration, "for", time.Hour, "How much time is simulated")
	command.Flags().DurationVar(&options.repairAfter, "repair-after", 5*time.Minute, "How long a remediation takes to make its node healthy, 0 if it never does")
	command.Flags().StringVar(&options.replay, "replay", "", "File with events of Nodes, or - for standard input: ask no cluster")
	for _, flag := range []string{"nodes", "fail", "recover", "for", "repair-after"} { // All of it is in the recording.
		command.MarkFlagsMutuallyExclusive("replay", flag)
	}
	for _, flag := range []string{"fail", "recover"} {
		_ = command.RegisterFlagCompletionFunc(flag, r.complete(true, cluster.NodeNames, false)) // The flag exists.
	}
	return command
}

// longestSimulation bounds --for.
const longestSimulation = 7 * 24 * time.Hour

func (r *root) runSimulate(ctx context.Context, options *simulateOptions) error {
	in := &simulation.Input{Start: r.Now().Truncate(time.Second), Duration: options.duration, RepairAfter: options.repairAfter}
	if err := options.parse(in); err != nil {
		return err
	}
	objects, notes, err := r.simulatedFiles(ctx, options.files)
	if err != nil {
		return err
	}
	snapshot, more, err := r.simulatedNodes(ctx, options, in)
	if err != nil {
		return err
	}
	notes = append(notes, more...)
	for _, object := range objects {
		snapshot.Apply(object)
	}
	in.Nodes, in.Checks, in.Budgets = snapshot.Nodes, snapshot.NodeHealthChecks, snapshot.Budgets
	switch missing := snapshot.Missing; {
	case (len(in.Checks) == 0 || len(in.Nodes) == 0) && len(missing) > 0:
		return &cluster.Error{Sentence: missing[0].Reason}
	case len(in.Checks) == 0 && len(options.files) > 0 && len(notes) > 0:
		return &cluster.Error{Sentence: fmt.Sprintf("There is no NodeHealthCheck of %s to simulate. %s", v1alpha1.SchemeGroupVersion, notes[0])}
	case len(in.Checks) == 0:
		return &cluster.Error{Sentence: "There is no NodeHealthCheck to simulate: give one with --filename."}
	}
	lister := "kubectl get nodes"
	if options.nodes != "" {
		lister = "--nodes " + options.nodes
	}
	for _, change := range slices.Concat(in.Fail, in.Recover) {
		if !slices.ContainsFunc(in.Nodes, func(node *corev1.Node) bool { return node.Name == change.Node }) {
			return notFound("Node", change.Node, view.NodeNames(snapshot), lister)
		}
	}
	in.Interrupted = func() bool { return ctx.Err() != nil }
	result := simulation.Run(in)
	if err := ctx.Err(); err != nil {
		return cluster.Explain(err, "simulate", "the nodes")
	}
	result.Notes, result.Missing = append(result.Notes, notes...), snapshot.Missing
	return r.show(&options.out, "Simulation", result, func(printer *view.Printer) {
		var recorded *time.Location
		if options.replay != "" {
			recorded = r.Now().Location()
		}
		result.Print(printer, recorded)
	})
}

// parse reads the flags into the input.
func (o *simulateOptions) parse(in *simulation.Input) error {
	switch {
	case o.duration <= 0 || o.duration > longestSimulation:
		return &cluster.Error{Sentence: fmt.Sprintf("Give a time with --for that is positive, and at most %s.", longestSimulation)}
	case o.repairAfter < 0:
		return &cluster.Error{Sentence: "Give a time with --repair-after that is not negative."}
	}
	inputs := slices.Concat(o.files, []string{o.nodes, o.replay})
	if inputs = slices.DeleteFunc(inputs, func(name string) bool { return name != admission.StandardInput }); len(inputs) > 1 {
		return &cluster.Error{Sentence: "Standard input can be read once only: give files for all but one of --filename, --nodes and --replay."}
	}
	for _, flag := range []struct {
		name   string
		values []string
		target *[]simulation.Change
	}{{"fail", o.fail, &in.Fail}, {"recover", o.recover, &in.Recover}} {
		for _, value := range flag.values {
			changes, wrong := simulation.ParseChanges(value)
			switch {
			case wrong != "":
				return &cluster.Error{Sentence: fmt.Sprintf("--%s %s: %q is no time, such as 90s or 2m30s.", flag.name, value, wrong)}
			case len(changes) == 0:
				return &cluster.Error{Sentence: fmt.Sprintf("--%s %s: name a node, such as node-3 or node-3,node-4@2m.", flag.name, value)}
			}
			*flag.target = append(*flag.target, changes...)
		}
	}
	return nil
}

// simulatedFiles returns the NodeHealthChecks and budgets of files, with a note about what is left out. It returns an error
// for each object that admission would refuse.
func (r *root) simulatedFiles(ctx context.Context, files []string) (accepted []any, notes []string, err error) {
	if len(files) == 0 {
		return nil, nil, nil
	}
	rules, err := admission.Shipped()
	if err != nil {
		return nil, nil, err
	}
	objects, err := r.lintFiles(ctx, rules, &lintOptions{files: files})
	if err != nil {
		return nil, nil, err
	}
	var skipped []string
	var refused []error
	for i := range objects {
		object := &objects[i]
		object.Findings = slices.DeleteFunc(object.Findings, func(finding lint.Finding) bool { return finding.Severity != lint.Error })
		switch object.Accepted.(type) {
		case *v1alpha1.NodeHealthCheck, *nhcv1alpha1.RemediationBudget:
			accepted = append(accepted, object.Accepted)
		default:
			if len(object.Findings) == 0 {
				skipped = append(skipped, strings.TrimSpace(cmp.Or(object.Kind, object.Source)+" "+object.Name))
			}
		}
		if len(object.Findings) > 0 {
			refused = append(refused, refusal(object))
		}
	}
	if len(skipped) > 0 {
		notes = []string{"Skipped, because only NodeHealthChecks and RemediationBudgets are simulated: " + view.Some(skipped, 5) + "."}
	}
	return accepted, notes, errors.Join(refused...)
}

// refusal says in one sentence why an object cannot be simulated.
func refusal(object *lint.Object) error {
	causes := make([]string, 0, len(object.Findings))
	for _, finding := range object.Findings {
		cause := strings.TrimRight(finding.What, ".")
		if finding.Field != "" {
			cause = finding.Field + ": " + cause
		}
		causes = append(causes, cause)
	}
	return &cluster.Error{Sentence: fmt.Sprintf("%s is refused: %s.", object.Title(), strings.Join(causes, "; "))}
}

// simulatedNodes returns the Nodes to begin with. The input gets how they change, if that is recorded.
func (r *root) simulatedNodes(ctx context.Context, options *simulateOptions, in *simulation.Input) (*view.Snapshot, []string, error) {
	switch {
	case options.replay != "":
		return r.recorded(options.replay, in)
	case options.nodes != "":
		nodes, err := r.nodesOf(options.nodes)
		return &view.Snapshot{Nodes: nodes}, nil, err
	default:
		clients, err := r.clients()
		if err != nil {
			return nil, nil, err
		}
		snapshot, err := cluster.Read(ctx, clients, cluster.Kinds{Uninstalled: true, Nodes: true, Budgets: true})
		return snapshot, nil, err
	}
}

// recorded reads a recording into the input.
func (r *root) recorded(name string, in *simulation.Input) (*view.Snapshot, []string, error) {
	file := r.In
	if name == admission.StandardInput {
		name = "standard input"
	} else {
		opened, err := os.Open(name)
		if err != nil {
			return nil, nil, &cluster.Error{Sentence: fmt.Sprintf("Cannot read the recording: %v.", err), Cause: err}
		}
		defer opened.Close()
		file = opened
	}
	recording, err := simulation.ReadRecording(file)
	if err != nil {
		return nil, nil, &cluster.Error{Sentence: fmt.Sprintf("%s %v.", name, err), Cause: err}
	}
	in.Start, in.Duration, in.RepairAfter, in.Recorded = recording.Start, recording.End.Sub(recording.Start), 0, recording.Changes
	var notes []string
	if recording.Truncated {
		notes = []string{"The last event of the recording is cut off, and was left out."}
	}
	return &view.Snapshot{Nodes: recording.Nodes}, notes, nil
}

// nodesOf returns the Nodes of a file.
func (r *root) nodesOf(file string) (nodes []*corev1.Node, err error) {
	documents, err := admission.ReadFiles([]string{file}, false, r.In)
	if err != nil {
		return nil, &cluster.Error{Sentence: fmt.Sprintf("Cannot read the nodes: %v.", err), Cause: err}
	}
	known := map[string]bool{}
	for _, document := range documents {
		object := document.Object
		switch {
		case object == nil:
			return nil, &cluster.Error{Sentence: fmt.Sprintf("%s: %s. Give Nodes, as kubectl get nodes -o yaml prints them.", document.Source, document.Problem)}
		case object.GetKind() != "Node" || object.GetAPIVersion() != "v1":
			return nil, &cluster.Error{Sentence: fmt.Sprintf("%s: there is a %s %s. Give Nodes, as kubectl get nodes -o yaml prints them.", document.Source, object.GetKind(), object.GetName())}
		case object.GetName() == "" || known[object.GetName()]:
			return nil, &cluster.Error{Sentence: fmt.Sprintf("%s: each Node needs a name of its own, and one has %q.", document.Source, object.GetName())}
		}
		known[object.GetName()] = true
		node := &corev1.Node{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, node); err != nil {
			return nil, &cluster.Error{Sentence: fmt.Sprintf("%s: Node %s cannot be understood: %v.", document.Source, object.GetName(), err), Cause: err}
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
