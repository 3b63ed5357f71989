// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// formatText is the format of results in sentences.
const formatText = "text"

// change is a command that changes something.
type change struct {
	*root
	output output
	dryRun string
	// needs are the permissions for everything that the command does, as part of a sentence.
	needs string
}

// needsOperate is what commands need that intervene.
const needsOperate = "ask for the ClusterRole nhc-operate"

// dryRunWithoutValue stands for what old versions of kubectl took for --dry-run=client.
const dryRunWithoutValue = "without a value"

// intervention returns a command that changes something, with the flags that all of them have.
func (r *root) intervention(command *cobra.Command, needs string) (*cobra.Command, *change) {
	c := &change{root: r, needs: needs}
	command.GroupID = intervening
	c.output.add(command, formatText, formatJSON, formatYAML, formatName)
	modes := []string{string(DryRunNone), string(DryRunClient), string(DryRunServer)}
	command.Flags().StringVar(&c.dryRun, "dry-run", modes[0], "none: make the change; client: send nothing; server: have it checked, and not stored")
	command.Flags().Lookup("dry-run").NoOptDefVal = dryRunWithoutValue
	_ = command.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(modes, cobra.ShellCompDirectiveNoFileComp)) // The flag exists.
	return command, c
}

// intervener returns the Intervener that makes the changes.
func (c *change) intervener() (*Intervener, error) {
	mode := DryRun(c.dryRun)
	switch mode {
	case DryRunNone, DryRunClient, DryRunServer:
	case dryRunWithoutValue:
		return nil, &cluster.Error{Sentence: "Give --dry-run a value: --dry-run=client or --dry-run=server."}
	default:
		return nil, &cluster.Error{Sentence: fmt.Sprintf("There is no dry run %q: use one of none, client, server.", c.dryRun)}
	}
	clients, err := c.clients()
	if err != nil {
		return nil, err
	}
	return &Intervener{Clients: clients, DryRun: mode}, nil
}

// report prints the result of an intervention.
func (c *change) report(result Result) error {
	switch c.output.format {
	case formatText:
		text := result.Resource.Resource
		if kind := singular[text]; kind != "" {
			text = kind
		}
		text += " " + result.Name + " " + result.Text + "."
		if c.dryRun != string(DryRunNone) {
			text += " (" + c.dryRun + " dry run)"
		}
		printer := c.printer()
		printer.Line(0, view.Text(text))
		return printed(printer)
	case formatName:
		return c.printName(result.Resource, result.Name)
	default:
		return c.encode(c.output.format, result.Object)
	}
}

// warn says that no controller is at work: then the change has no effect yet.
func (c *change) warn(ctx context.Context, clients *cluster.Clients) {
	leader, _ := cluster.ReadLeader(ctx, clients) // Without an answer there is no warning.
	if problem := leader.Problem(c.Now()); problem != "" {
		fmt.Fprintln(c.ErrOut, "Warning: "+view.Clean(problem))
	}
}

// needed names all permissions of the command in an error about one missing permission.
func (c *change) needed(err error) error {
	if known, ok := errors.AsType[*cluster.Error](err); ok && known.Denied != "" {
		return &cluster.Error{Sentence: known.Denied + ": " + c.needs + ".", Cause: err}
	}
	return err
}

// singular are the names of kinds in sentences.
var singular = map[string]string{v1alpha1.Plural: v1alpha1.Kind, nhcv1alpha1.BudgetPlural: nhcv1alpha1.BudgetKind, "nodes": "Node"}

// each does the same to several objects. It goes on after an error.
func (c *change) each(ctx context.Context, names []string, kind string, list func(context.Context, *cluster.Clients) ([]string, error), do func(*Intervener, string) (Result, error)) error {
	intervener, err := c.intervener()
	if err != nil {
		return err
	}
	var errs []error
	defer c.warn(ctx, intervener.Clients)
	for _, name := range names {
		result, err := do(intervener, name)
		if apierrors.IsNotFound(err) && !cluster.NotServed(err) {
			known, listErr := list(ctx, intervener.Clients)
			if listErr == nil {
				err = notFound(kind, name, known, "kubectl get "+kind)
			}
		}
		if apierrors.IsConflict(err) {
			err = &cluster.Error{Sentence: fmt.Sprintf("%s %s changes all the time: try again.", kind, name), Cause: err}
		}
		if err == nil {
			err = c.report(result)
		}
		if err != nil {
			errs = append(errs, c.needed(err))
		}
	}
	return errors.Join(errs...)
}

// FieldManager is the name under which the API server records the changes.
const FieldManager = "kubectl-nhc"

// DryRun says how far a change goes.
type DryRun string

const (
	// DryRunNone makes the change.
	DryRunNone DryRun = "none"
	// DryRunClient sends nothing that changes anything.
	DryRunClient DryRun = "client"
	// DryRunServer has the API server check the change, and not store it.
	DryRunServer DryRun = "server"
)

// Intervener makes changes as the user.
type Intervener struct {
	*cluster.Clients
	DryRun DryRun
}

// Result is the result of an intervention.
type Result struct {
	// Resource and Name are those of the object.
	Resource schema.GroupResource
	Name     string
	// Object is the object as it is now, or would be. It is nil if it does not exist.
	Object runtime.Object
	// Changed is false if nothing had to be done.
	Changed bool
	// Text says in a sentence or two what was done, and what it does not do.
	Text string
}

// sent returns the value of the field dryRun of the options of a write.
func (i *Intervener) sent() []string {
	if i.DryRun == DryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (i *Intervener) patchOptions() metav1.PatchOptions {
	return metav1.PatchOptions{DryRun: i.sent(), FieldManager: FieldManager}
}

// patchOf returns a merge patch of one object. It is refused if the object is another one of the same name by now,
// and if it is about the version that was read, also if it has changed.
func patchOf(object metav1.Object, version bool, patch map[string]any) ([]byte, error) {
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"] = object.GetUID()
	if version {
		metadata["resourceVersion"] = object.GetResourceVersion()
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return encoded, nil
}

// untilCurrent repeats an attempt, which reads the object first, as long as another client changes it
// in between.
func untilCurrent(ctx context.Context, attempt func(context.Context) (Result, error)) (result Result, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		result, err = attempt(ctx)
		return err
	})
	return result, err
}

// explainWrite explains the error of a write, except a conflict, which is tried again.
func explainWrite(err error, verb, resource string) error {
	if apierrors.IsConflict(err) {
		return err
	}
	return cluster.Explain(err, verb, resource)
}
