// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
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
	// set sets the reasons.
	set func(object *unstructured.Unstructured, reasons []string)
	// temporary objects exist only while there are reasons: without, they are empty.
	temporary bool
}

var (
	nodeHealthCheck = &subject{
		kind: v1alpha1.Kind, resource: v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural), lister: "kubectl nhc status",
		reasons: func(object *unstructured.Unstructured) []string {
			requests, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "pauseRequests") // The schema has no other type.
			return requests
		},
		set: func(object *unstructured.Unstructured, reasons []string) {
			if len(reasons) == 0 {
				unstructured.RemoveNestedField(object.Object, "spec", "pauseRequests")
				return
			}
			_ = unstructured.SetNestedStringSlice(object.Object, reasons, "spec", "pauseRequests") // The schema has no other spec.
		},
	}
	machineHealthCheck = &subject{ // Spec M9.1: the value of the annotation does not matter.
		kind: "MachineHealthCheck", resource: machinev1beta1.SchemeGroupVersion.WithResource("machinehealthchecks"), lister: "kubectl nhc status",
		reasons: func(object *unstructured.Unstructured) []string {
			value, is := object.GetAnnotations()[machinev1beta1.AnnotationPaused]
			return lines(value, is)
		},
		set: func(object *unstructured.Unstructured, reasons []string) {
			object.SetAnnotations(with(object.GetAnnotations(), machinev1beta1.AnnotationPaused, strings.Join(reasons, "\n"), len(reasons) > 0))
		},
	}
	node = &subject{
		kind: "Node", resource: corev1.SchemeGroupVersion.WithResource("nodes"), lister: "kubectl get nodes",
		reasons: func(object *unstructured.Unstructured) []string {
			return lines(object.GetAnnotations()[v1alpha1.AnnotationPauseReason], object.GetLabels()[v1alpha1.LabelExclude] == excluded)
		},
		set: func(object *unstructured.Unstructured, reasons []string) {
			object.SetLabels(with(object.GetLabels(), v1alpha1.LabelExclude, excluded, len(reasons) > 0))
			object.SetAnnotations(with(object.GetAnnotations(), v1alpha1.AnnotationPauseReason, strings.Join(reasons, "\n"), len(reasons) > 0))
		},
	}
	wholeCluster = &subject{
		kind: nhcv1alpha1.BudgetKind, resource: nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural), temporary: true,
		reasons: func(object *unstructured.Unstructured) []string {
			read := &nhcv1alpha1.RemediationBudget{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, read) != nil {
				return nil // Which no API server with our schema answers.
			}
			return lines(read.Spec.Reason, budget.Parse(read).StopsAll())
		},
		set: func(object *unstructured.Unstructured, reasons []string) {
			switch {
			case len(reasons) == 0:
				object.Object = nil
				return
			case object.Object == nil:
				object.Object = map[string]any{
					"apiVersion": nhcv1alpha1.SchemeGroupVersion.String(), "kind": nhcv1alpha1.BudgetKind, "metadata": map[string]any{"name": view.PauseBudget},
					"spec": map[string]any{"nodeSelector": map[string]any{}, "maxConcurrent": int64(0)},
				}
			}
			_ = unstructured.SetNestedField(object.Object, strings.Join(reasons, "\n"), "spec", "reason") // The schema has no other spec.
		},
	}
)

// excluded is the value of the label that has an effect (spec 15.1).
const excluded = "true"

// with returns labels or annotations in which a key has a value, or is not there.
func with(values map[string]string, key, value string, there bool) map[string]string {
	changed := maps.Clone(values)
	delete(changed, key)
	if there {
		changed = labels.Merge(changed, map[string]string{key: value})
	}
	return changed
}

// lines are the reasons in a value that has one on each line. A pause without a reason has an empty one.
func lines(value string, paused bool) []string {
	if !paused {
		return nil
	}
	return strings.Split(value, "\n")
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
