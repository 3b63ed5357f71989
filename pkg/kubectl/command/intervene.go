// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// change is a command that changes something.
type change struct {
	*root
	output   output
	dryRun   string
	patience time.Duration
}

// dryRunWithoutValue stands for what old versions of kubectl took for --dry-run=client.
const dryRunWithoutValue = "without a value"

// dryRuns are the values of --dry-run.
var dryRuns = []string{string(DryRunNone), string(DryRunClient), string(DryRunServer)}

// intervention returns a command that changes something, with the flags that all of them have.
func (r *root) intervention(command *cobra.Command) (*cobra.Command, *change) {
	c := &change{root: r, patience: patience}
	command.GroupID = intervening
	c.output.add(command, formatName)
	command.Flags().StringVar(&c.dryRun, "dry-run", dryRuns[0], "none: make the change; client: send nothing; server: have it checked, and not stored")
	command.Flags().Lookup("dry-run").NoOptDefVal = dryRunWithoutValue
	_ = command.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(dryRuns, cobra.ShellCompDirectiveNoFileComp)) // The flag exists.
	return command, c
}

// intervener returns the Intervener that makes the changes.
func (c *change) intervener() (*Intervener, error) {
	switch {
	case c.dryRun == dryRunWithoutValue:
		return nil, &cluster.Error{Sentence: "Give --dry-run a value: --dry-run=client or --dry-run=server."}
	case !slices.Contains(dryRuns, c.dryRun):
		return nil, &cluster.Error{Sentence: fmt.Sprintf("There is no dry run %q: use one of none, client, server.", c.dryRun)}
	}
	clients, err := c.clients()
	if err != nil {
		return nil, err
	}
	return &Intervener{Clients: clients, DryRun: DryRun(c.dryRun)}, nil
}

// report prints the result of an intervention.
func (c *change) report(result Result) error {
	if !c.output.forPeople() {
		return c.output.printObject(c.root, result.Object)
	}
	text := result.Title + " " + result.Text + "."
	if mode := DryRun(c.dryRun); result.Changed && mode != DryRunNone {
		text += fmt.Sprintf(" (%s dry run)", mode)
	}
	printer := c.printer()
	printer.Line(0, view.Text(text))
	return printed(printer)
}

// warn says that no controller is at work: then the change has no effect yet.
func (c *change) warn(ctx context.Context, clients *cluster.Clients) {
	leader, _ := cluster.ReadLeader(ctx, clients) // Without an answer there is no warning.
	if problem := leader.Problem(c.Now()); problem != "" {
		fmt.Fprintln(c.ErrOut, "Warning: "+view.Clean(problem))
	}
}

// each does the same to several targets. It goes on after an error.
func (c *change) each(ctx context.Context, i *Intervener, targets []target, do func(target) (Result, error)) error {
	var errs []error
	for _, t := range targets {
		result, err := do(t)
		if apierrors.IsNotFound(err) && !cluster.NotServed(err) {
			err = i.notFound(ctx, t)
		}
		if err == nil {
			err = c.report(result)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// notFound proposes names that are there. A node may have been meant.
func (i *Intervener) notFound(ctx context.Context, t target) error {
	list, name := cluster.CheckNames, t.name
	switch t.subject {
	case node:
		list = cluster.NodeNames
	case machineHealthCheck:
		name = t.namespace + "/" + t.name
	}
	names, _ := list(ctx, i.Clients) // Without an answer there is nothing to propose.
	if t.subject == nodeHealthCheck {
		if _, err := i.Kube.CoreV1().Nodes().Get(ctx, t.name, metav1.GetOptions{}); err == nil {
			return proposing(t.kind, name, []string{"node/" + t.name}, t.lister)
		}
	}
	return notFound(t.kind, name, names, t.lister)
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
	// Title names the object in a sentence.
	Title string
	// Object is the object as it is now, or would be.
	Object *unstructured.Unstructured
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

// edit is what becomes of an object.
type edit struct {
	text string
	// patch is a merge patch, nil if nothing has to be done.
	patch  map[string]any
	remove bool
}

// update writes what change makes of an object, bound to the version that was read. It tries again if another client has
// changed the object in between.
func (i *Intervener) update(ctx context.Context, t target, change func(*unstructured.Unstructured) (edit, error)) (result Result, err error) {
	var client dynamic.ResourceInterface = i.Dynamic.Resource(t.resource)
	if t.namespace != "" {
		client = i.Dynamic.Resource(t.resource).Namespace(t.namespace)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object, err := client.Get(ctx, t.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !cluster.NotServed(err) && t.create != nil {
			object, err = &unstructured.Unstructured{}, nil
			object.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(t.create(t.name))
		}
		if err != nil {
			return cluster.Explain(err, "get", t.resource.Resource)
		}
		made, err := change(object)
		if err != nil {
			return err
		}
		result = Result{Title: t.String(), Object: object, Changed: made.patch != nil, Text: made.text}
		if made.patch == nil {
			return nil
		}
		result.Object, err = i.write(ctx, client, t.resource.GroupResource(), object, made)
		return err
	})
	if apierrors.IsConflict(err) {
		err = &cluster.Error{Sentence: t.String() + " changes all the time: try again.", Cause: err}
	}
	return result, err
}

// write makes one change, unless another client was faster: then the error is a conflict.
func (i *Intervener) write(ctx context.Context, client dynamic.ResourceInterface, resource schema.GroupResource, object *unstructured.Unstructured, made edit) (written *unstructured.Unstructured, err error) {
	name, version, uid := object.GetName(), object.GetResourceVersion(), object.GetUID()
	verb := "patch"
	switch {
	case made.remove:
		verb, written = "delete", object
		if i.DryRun != DryRunClient {
			err = client.Delete(ctx, name, metav1.DeleteOptions{DryRun: i.sent(), Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
		}
	case version == "":
		verb = "create"
		merge(object.Object, made.patch)
		if written = object; i.DryRun != DryRunClient {
			written, err = client.Create(ctx, object, metav1.CreateOptions{DryRun: i.sent(), FieldManager: FieldManager})
		}
	case i.DryRun == DryRunClient:
		merge(object.Object, made.patch)
		written = object
	default:
		merge(made.patch, metadata(map[string]any{"resourceVersion": version, "uid": string(uid)}))
		body, encodeErr := json.Marshal(made.patch)
		if encodeErr != nil {
			return nil, fmt.Errorf("encoding the patch: %w", encodeErr)
		}
		written, err = client.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{DryRun: i.sent(), FieldManager: FieldManager})
	}
	switch {
	case apierrors.IsAlreadyExists(err): // Another user has created it: look again.
		return nil, apierrors.NewConflict(resource, name, err)
	case apierrors.IsConflict(err):
		return nil, err
	case made.remove && apierrors.IsNotFound(err):
		return written, nil
	default:
		return written, cluster.Explain(err, verb, resource.Resource)
	}
}

// merge applies a merge patch.
func merge(object, patch map[string]any) {
	for key, value := range patch {
		fields, nested := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case nested:
			into, ok := object[key].(map[string]any)
			if !ok {
				into = map[string]any{}
				object[key] = into
			}
			merge(into, fields)
		default:
			object[key] = value
		}
	}
}
