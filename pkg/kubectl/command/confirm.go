// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

func (r *root) confirmHealthy() *cobra.Command {
	return r.intervention(&cobra.Command{
		Use:   "confirm-healthy NODE...",
		Short: "End the healthy delay of a node",
		Long: `Gives a node the annotation remediation.medik8s.io/manually-confirmed-healthy, if it is healthy
again and a NodeHealthCheck keeps its remediation objects for spec.healthyDelay. They are
deleted then, and the controller removes the annotation.`,
		Example:           "  kubectl nhc confirm-healthy node-3",
		Args:              between(1, math.MaxInt, node.kind, node.lister),
		ValidArgsFunction: r.complete(true, cluster.NodeNames, true),
	}, func(ctx context.Context, c *change, args []string) error {
		var targets []target
		for _, name := range args {
			short, _ := nodeOf(name)
			targets = append(targets, target{node, "", cmp.Or(short, name)})
		}
		err := c.each(ctx, targets, c.confirm)
		c.warn(ctx)
		return err
	})
}

// confirm gives a node the annotation that ends its healthy delay (spec 16.6). A node that
// is not healthy does not get it: it would end the next delay, and no user would have looked at the node then.
func (c *change) confirm(ctx context.Context, t target) (result, error) {
	return c.update(ctx, t, func(node *unstructured.Unstructured) (string, error) {
		if _, confirmed := node.GetAnnotations()[v1alpha1.AnnotationManuallyConfirmedHealthy]; confirmed {
			return "is confirmed already: the controller is about to delete its remediation objects", nil
		}
		checks, err := c.NHC.RemediationV1alpha1().NodeHealthChecks().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", cluster.Explain(err, "list", v1alpha1.Plural)
		}
		var delaying []string
		for j := range checks.Items {
			switch entry := view.EntryOf(&checks.Items[j], t.name); {
			case entry == nil:
			case entry.HealthyDelayed != nil && *entry.HealthyDelayed:
				delaying = append(delaying, checks.Items[j].Name)
			case entry.ConditionsHealthyTimestamp == nil:
				return "", &cluster.Error{Sentence: fmt.Sprintf("%s is not healthy, as NodeHealthCheck %s reports: confirm it when it is.", t, checks.Items[j].Name)}
			}
		}
		if len(delaying) == 0 {
			return "needs no confirmation: no NodeHealthCheck keeps its remediation objects for healthyDelay", nil
		}
		node.SetAnnotations(with(node.GetAnnotations(), v1alpha1.AnnotationManuallyConfirmedHealthy, "", true))
		return "is confirmed to be healthy: its remediation objects of " + strings.Join(delaying, ", ") + " are deleted now", nil
	})
}
