// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// subject is a kind of objects that can be paused.
type subject struct {
	kind     string
	resource schema.GroupVersionResource
	// lister is the command that lists them.
	lister string
	// reasons returns why an object is paused, nothing if it is not.
	reasons func(*unstructured.Unstructured) []string
	// patch returns the merge patch that sets the reasons.
	patch func(reasons []string) map[string]any
	// create returns the object that exists only while there are reasons. It is nil for objects that exist without.
	create func(reasons []string) map[string]any
}

var (
	nodeHealthCheck = &subject{
		kind: v1alpha1.Kind, resource: v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural), lister: "kubectl nhc status",
		reasons: func(object *unstructured.Unstructured) []string {
			requests, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "pauseRequests") // The schema has no other type.
			return requests
		},
		patch: func(reasons []string) map[string]any {
			var value any // Without a reason, the field goes.
			if len(reasons) > 0 {
				value = anySlice(reasons)
			}
			return map[string]any{"spec": map[string]any{"pauseRequests": value}}
		},
	}
	machineHealthCheck = &subject{ // Spec M9.1: the value of the annotation does not matter.
		kind: "MachineHealthCheck", resource: machinev1beta1.SchemeGroupVersion.WithResource("machinehealthchecks"), lister: "kubectl nhc status",
		reasons: func(object *unstructured.Unstructured) []string {
			value, is := object.GetAnnotations()[machinev1beta1.AnnotationPaused]
			return lines(value, is)
		},
		patch: func(reasons []string) map[string]any {
			return metadata(map[string]any{"annotations": map[string]any{machinev1beta1.AnnotationPaused: joined(reasons)}})
		},
	}
	node = &subject{
		kind: "Node", resource: corev1.SchemeGroupVersion.WithResource("nodes"), lister: "kubectl get nodes",
		reasons: func(object *unstructured.Unstructured) []string {
			return lines(object.GetAnnotations()[v1alpha1.AnnotationPauseReason], object.GetLabels()[v1alpha1.LabelExclude] == excluded)
		},
		patch: func(reasons []string) map[string]any {
			label := joined(reasons)
			if label != nil {
				label = excluded
			}
			return metadata(map[string]any{
				"labels":      map[string]any{v1alpha1.LabelExclude: label},
				"annotations": map[string]any{v1alpha1.AnnotationPauseReason: joined(reasons)},
			})
		},
	}
	wholeCluster = &subject{
		kind: nhcv1alpha1.BudgetKind, resource: nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural),
		reasons: func(object *unstructured.Unstructured) []string {
			budget := &nhcv1alpha1.RemediationBudget{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, budget) != nil {
				return nil // Which no API server with our schema answers.
			}
			return lines(budget.Spec.Reason, view.StopsAll(budget))
		},
		patch: func(reasons []string) map[string]any {
			return map[string]any{"spec": map[string]any{"reason": joined(reasons)}}
		},
		create: func(reasons []string) map[string]any {
			return map[string]any{
				"apiVersion": nhcv1alpha1.SchemeGroupVersion.String(), "kind": nhcv1alpha1.BudgetKind, "metadata": map[string]any{"name": view.PauseBudget},
				"spec": map[string]any{"nodeSelector": map[string]any{}, "maxConcurrent": int64(0), "reason": joined(reasons)},
			}
		},
	}
)

// excluded is the value of the label that has an effect (spec 15.1).
const excluded = "true"

func metadata(fields map[string]any) map[string]any { return map[string]any{"metadata": fields} }

// lines are the reasons in a value that has one on each line. A pause without a reason has an empty one.
func lines(value string, paused bool) []string {
	if !paused {
		return nil
	}
	return strings.Split(value, "\n")
}

// joined is the value that has these reasons, nil without any.
func joined(reasons []string) any {
	if len(reasons) == 0 {
		return nil
	}
	return strings.Join(reasons, "\n")
}

func anySlice(texts []string) (values []any) {
	for _, text := range texts {
		values = append(values, text)
	}
	return values
}

// target is an object that is to be paused, or to go on.
type target struct {
	*subject
	namespace, name string
}

// theCluster is paused by the one RemediationBudget of this name.
var theCluster = target{wholeCluster, "", view.PauseBudget}

// String names the target in a sentence.
func (t target) String() string {
	if t.subject == wholeCluster {
		return "The cluster"
	}
	return t.kind + " " + strings.TrimPrefix(t.namespace+"/"+t.name, "/")
}

// targetOf reads an argument: a NodeHealthCheck, NAMESPACE/NAME of a MachineHealthCheck, or node/NAME.
func targetOf(argument string) target {
	if name, is := nodeOf(argument); is {
		return target{node, "", name}
	}
	if namespace, name, both := strings.Cut(argument, "/"); both {
		return target{machineHealthCheck, namespace, name}
	}
	return target{nodeHealthCheck, "", argument}
}

// nodeOf returns the name of the node in node/NAME, with any of the words that kubectl takes for nodes.
func nodeOf(argument string) (name string, is bool) {
	kind, name, both := strings.Cut(argument, "/")
	return name, both && slices.Contains([]string{"node", "nodes", "no"}, kind)
}

func quoted(texts []string) string {
	all := make([]string, 0, len(texts))
	for _, text := range texts {
		all = append(all, fmt.Sprintf("%q", text))
	}
	return strings.Join(all, ", ")
}
