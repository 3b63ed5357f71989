// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// change is a command that changes something, as the user.
type change struct {
	*root
	*cluster.Clients
	output output
	// dryRun is empty, or has the API server check the changes, and not store them.
	dryRun   string
	patience time.Duration
}

// dryRunServer is the one dry run that there is: without the API server there would be nothing to learn.
const dryRunServer = "server"

// intervention completes a command that changes something, with the flags that all of them have.
func (r *root) intervention(command *cobra.Command, do func(context.Context, *change, []string) error) *cobra.Command {
	c := &change{root: r, patience: patience}
	command.GroupID = intervening
	c.output.add(command, formatName)
	command.Flags().StringVar(&c.dryRun, "dry-run", "", dryRunServer+": have the API server check the change, and not store it")
	_ = command.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{dryRunServer}, cobra.ShellCompDirectiveNoFileComp)) // The flag exists.
	command.RunE = func(command *cobra.Command, args []string) (err error) {
		if c.dryRun != "" && c.dryRun != dryRunServer {
			return &cluster.Error{Sentence: fmt.Sprintf("There is no dry run %q: use --dry-run=server.", c.dryRun)}
		}
		if c.Clients, err = r.clients(); err != nil {
			return err
		}
		return do(command.Context(), c, args)
	}
	return command
}

// report prints the result of a change.
func (c *change) report(result result) error {
	if !c.output.forPeople() {
		return c.output.printObject(c.root, result.object)
	}
	text := result.title + " " + result.text + "."
	if result.changed && c.dryRun != "" {
		text += " (server dry run)"
	}
	printer := c.printer()
	printer.Line(0, view.Text(text))
	return printer.Err()
}

// warn says that no controller is at work: then the change has no effect yet.
func (c *change) warn(ctx context.Context) {
	leader, _ := cluster.ReadLeader(ctx, c.Clients) // Without an answer there is no warning.
	if problem := leader.Problem(c.Now()); problem != "" {
		fmt.Fprintln(c.ErrOut, "Warning: "+view.Clean(problem))
	}
}

// each does the same to several targets. It goes on after an error.
func (c *change) each(ctx context.Context, targets []target, do func(context.Context, target) (result, error)) error {
	var errs []error
	for _, t := range targets {
		made, err := do(ctx, t)
		if err == nil {
			err = c.report(made)
		}
		errs = append(errs, c.explained(ctx, t, err))
	}
	return errors.Join(errs...)
}

// explained proposes names that are there if a target is not. A node may have been meant.
func (c *change) explained(ctx context.Context, t target, err error) error {
	if !apierrors.IsNotFound(err) || cluster.NotServed(err) {
		return err
	}
	list, name := cluster.Names(cluster.Kinds{MachineHealthChecks: true}), strings.TrimPrefix(t.namespace+"/"+t.name, "/")
	if t.subject == node {
		list = cluster.NodeNames
	}
	names, _ := list(ctx, c.Clients) // Without an answer there is nothing to propose.
	if t.subject == nodeHealthCheck {
		if _, err := c.Kube.CoreV1().Nodes().Get(ctx, t.name, metav1.GetOptions{}); err == nil {
			return proposing(t.kind, name, []string{"node/" + t.name}, t.lister)
		}
	}
	return notFound(t.kind, name, names, t.lister)
}

// FieldManager is the name under which the API server records the changes.
const FieldManager = "kubectl-nhc"

// result is what has become of an object.
type result struct {
	// title names the object in a sentence.
	title string
	// object is as it is now, or would be.
	object *unstructured.Unstructured
	// changed is false if nothing had to be done.
	changed bool
	// text says in a sentence or two what was done, and what it does not do.
	text string
}

// sent returns the value of the field dryRun of the options of a write.
func (c *change) sent() []string {
	if c.dryRun != "" {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// update writes what change makes of an object, bound to the version that was read. It tries again if another client has
// changed the object in between. An object that is there only while it has reasons is empty if it is not there.
func (c *change) update(ctx context.Context, t target, change func(*unstructured.Unstructured) (text string, err error)) (made result, err error) {
	client := c.Dynamic.Resource(t.resource).Namespace(t.namespace)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		before, err := client.Get(ctx, t.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !cluster.NotServed(err) && t.temporary {
			before, err = &unstructured.Unstructured{}, nil
		}
		if err != nil {
			return cluster.Explain(err, "get", t.resource.Resource)
		}
		made = result{title: t.String(), object: before.DeepCopy()}
		if made.text, err = change(made.object); err == nil && !equality.Semantic.DeepEqual(before, made.object) {
			made.changed = true
			made.object, err = c.write(ctx, client, t, before, made.object)
		}
		return err
	})
	if apierrors.IsConflict(err) {
		err = &cluster.Error{Sentence: t.String() + " changes all the time: try again.", Cause: err}
	}
	return made, err
}

// write makes one change, unless another client was faster: then the error is a conflict.
func (c *change) write(ctx context.Context, client dynamic.ResourceInterface, t target, before, after *unstructured.Unstructured) (written *unstructured.Unstructured, err error) {
	verb, version := "patch", before.GetResourceVersion()
	switch {
	case before.Object == nil:
		verb = "create"
		written, err = client.Create(ctx, after, metav1.CreateOptions{DryRun: c.sent(), FieldManager: FieldManager})
	case after.Object == nil:
		verb, written = "delete", before
		err = client.Delete(ctx, t.name, metav1.DeleteOptions{DryRun: c.sent(), Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	default:
		var patch []byte
		if patch, err = mergePatch(before, after); err != nil {
			return nil, err
		}
		written, err = client.Patch(ctx, t.name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: c.sent(), FieldManager: FieldManager})
	}
	switch resource := t.resource.GroupResource(); {
	case apierrors.IsAlreadyExists(err): // Another user has created it: look again.
		return nil, apierrors.NewConflict(resource, t.name, err)
	case apierrors.IsConflict(err):
		return nil, err
	case verb == "delete" && apierrors.IsNotFound(err):
		return before, nil
	default:
		return written, cluster.Explain(err, verb, resource.Resource)
	}
}

// mergePatch makes one version of an object of another, and has the resourceVersion of both.
func mergePatch(before, after *unstructured.Unstructured) ([]byte, error) {
	unversioned := before.DeepCopy()
	unversioned.SetResourceVersion("")
	original, err := unversioned.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	modified, err := after.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	return jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, original)
}
