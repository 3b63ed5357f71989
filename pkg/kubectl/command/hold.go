// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

func (r *root) hold() *cobra.Command {
	return r.forNodes(&cobra.Command{
		Use:   "hold NODE...",
		Short: "Have nothing begin for a node",
		Long: `Gives a node the label remediation.medik8s.io/exclude-from-remediation=true. While it has the
label, no health check begins anything for it. A remediation that runs is kept, and
goes no further. The node still counts as not healthy if it is.`,
		Example: "  kubectl nhc hold node-3",
	}, (*Intervener).Hold)
}

func (r *root) release() *cobra.Command {
	return r.forNodes(&cobra.Command{
		Use:     "release NODE...",
		Short:   "End hold",
		Long:    "Removes the label remediation.medik8s.io/exclude-from-remediation=true from a node.",
		Example: "  kubectl nhc release node-3",
	}, (*Intervener).Release)
}

func (r *root) confirmHealthy() *cobra.Command {
	return r.forNodes(&cobra.Command{
		Use:   "confirm-healthy NODE...",
		Short: "End the healthy delay of a node",
		Long: `Gives a node the annotation remediation.medik8s.io/manually-confirmed-healthy, if it is healthy
again and a NodeHealthCheck keeps its remediation objects for spec.healthyDelay. They are
deleted then, and the controller removes the annotation.`,
		Example: "  kubectl nhc confirm-healthy node-3",
	}, (*Intervener).ConfirmHealthy)
}

// forNodes completes a command that does something to nodes.
func (r *root) forNodes(command *cobra.Command, do func(*Intervener, context.Context, string) (Result, error)) *cobra.Command {
	command, c := r.intervention(command, needsOperate)
	command.Args = atLeastOne("Node", "kubectl get nodes")
	command.ValidArgsFunction = cobra.CompletionFunc(r.complete(true, cluster.NodeNames))
	command.RunE = func(command *cobra.Command, args []string) error {
		return c.each(command.Context(), args, "Node", cluster.NodeNames, func(i *Intervener, name string) (Result, error) {
			return do(i, command.Context(), name)
		})
	}
	return command
}

const (
	nodes = "nodes"
	held  = "true" // Spec 15.1: no other value has an effect.
)

// Hold gives a node the label that exempts it from remediation (spec 15).
func (i *Intervener) Hold(ctx context.Context, name string) (Result, error) {
	node, err := i.node(ctx, name)
	if err != nil {
		return Result{}, err
	}
	running, err := i.running(ctx, name)
	if err != nil {
		return Result{}, err
	}
	text := "is held: nothing begins for it" + running
	if node.Labels[v1alpha1.LabelExclude] == held {
		return Result{Resource: nodeResource, Name: name, Object: node, Text: "was held already: nothing begins for it" + running}, nil
	}
	return i.setNodeKey(ctx, node, "labels", v1alpha1.LabelExclude, new(held), text)
}

// Release removes the label that exempts a node from remediation.
func (i *Intervener) Release(ctx context.Context, name string) (Result, error) {
	node, err := i.node(ctx, name)
	if err != nil {
		return Result{}, err
	}
	switch label, labelled := node.Labels[v1alpha1.LabelExclude]; {
	case !labelled:
		return Result{Resource: nodeResource, Name: name, Object: node, Text: "was not held"}, nil
	case label != held:
		return Result{Resource: nodeResource, Name: name, Object: node, Text: fmt.Sprintf("was not held: the value %q of its label has no effect", label)}, nil
	}
	return i.setNodeKey(ctx, node, "labels", v1alpha1.LabelExclude, nil, "is released: if it is unhealthy, it is remediated")
}

// ConfirmHealthy gives a node the annotation that ends its healthy delay (spec 16.6). A node that
// is not healthy does not get it: it would end the next delay, and no user would have looked at the node then.
func (i *Intervener) ConfirmHealthy(ctx context.Context, name string) (Result, error) {
	node, err := i.node(ctx, name)
	if err != nil {
		return Result{}, err
	}
	result := Result{Resource: nodeResource, Name: name, Object: node}
	if _, confirmed := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]; confirmed {
		result.Text = "is confirmed already: the controller is about to delete its remediation objects"
		return result, nil
	}
	checks, err := i.NHC.RemediationV1alpha1().NodeHealthChecks().List(ctx, metav1.ListOptions{})
	if err != nil {
		return Result{}, cluster.Explain(err, "list", v1alpha1.Plural)
	}
	var delaying []string
	for j := range checks.Items {
		switch entry := view.EntryOf(&checks.Items[j], name); {
		case entry == nil:
		case entry.HealthyDelayed != nil && *entry.HealthyDelayed:
			delaying = append(delaying, checks.Items[j].Name)
		case entry.ConditionsHealthyTimestamp == nil:
			return Result{}, &cluster.Error{Sentence: fmt.Sprintf("Node %s is not healthy, as NodeHealthCheck %s reports: confirm it when it is.", name, checks.Items[j].Name)}
		}
	}
	if len(delaying) == 0 {
		result.Text = "needs no confirmation: no NodeHealthCheck keeps its remediation objects for healthyDelay"
		return result, nil
	}
	text := "is confirmed to be healthy: its remediation objects of " + strings.Join(delaying, ", ") + " are deleted now"
	return i.setNodeKey(ctx, node, "annotations", v1alpha1.AnnotationManuallyConfirmedHealthy, new(""), text)
}

var nodeResource = corev1.Resource(nodes)

func (i *Intervener) node(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := i.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, cluster.Explain(err, "get", nodes)
	}
	node.APIVersion, node.Kind = "v1", "Node"
	node.ManagedFields = nil
	return node, nil
}

// setNodeKey sets one label or annotation of a node, or removes it. The keys of others are not touched,
// so the patch is bound to the node, and not to its version.
func (i *Intervener) setNodeKey(ctx context.Context, node *corev1.Node, field, key string, value *string, text string) (Result, error) {
	result := Result{Resource: nodeResource, Name: node.Name, Object: node, Changed: true, Text: text}
	if i.DryRun == DryRunClient {
		keys := map[string]*map[string]string{"labels": &node.Labels, "annotations": &node.Annotations}[field]
		if value == nil {
			delete(*keys, key)
			return result, nil
		}
		if *keys == nil {
			*keys = map[string]string{}
		}
		(*keys)[key] = *value
		return result, nil
	}
	body, err := patchOf(node, false, map[string]any{"metadata": map[string]any{field: map[string]any{key: value}}})
	if err != nil {
		return Result{}, err
	}
	patched, err := i.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, body, i.patchOptions())
	if apierrors.IsConflict(err) {
		return Result{}, &cluster.Error{Sentence: fmt.Sprintf("Node %s was replaced by another one meanwhile: try again.", node.Name), Cause: err}
	}
	if err != nil {
		return Result{}, cluster.Explain(err, "patch", nodes)
	}
	patched.APIVersion, patched.Kind = "v1", "Node"
	patched.ManagedFields = nil
	result.Object = patched
	return result, nil
}

// running tells which remediations of a node are not affected, as far as they can be read. Without the kind of
// NodeHealthChecks, the label has no effect.
func (i *Intervener) running(ctx context.Context, node string) (string, error) {
	checks, err := i.NHC.RemediationV1alpha1().NodeHealthChecks().List(ctx, metav1.ListOptions{})
	switch {
	case cluster.NotServed(err):
		return "", cluster.Explain(err, "list", v1alpha1.Plural)
	case err != nil:
		return ". Whether it is under remediation cannot be read", nil //nolint:nilerr // The label is set all the same.
	}
	var found []string
	for j := range checks.Items {
		entry := view.EntryOf(&checks.Items[j], node)
		if entry == nil {
			continue
		}
		for _, remediation := range entry.Remediations {
			found = append(found, fmt.Sprintf("%s %s of NodeHealthCheck %s", remediation.Resource.Kind, remediation.Resource.Name, checks.Items[j].Name))
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	return ". What runs already is kept: " + strings.Join(found, ", "), nil
}
