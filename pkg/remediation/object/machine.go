// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// MachineTarget is the Machine that a CR is for.
type MachineTarget struct {
	APIVersion, Kind, Name string
	UID                    types.UID
	// Node is the name of its Node, empty if it has none.
	Node         string
	ControlPlane bool
	// Cluster is the Cluster of a Machine of Cluster API.
	Cluster string
}

// RenderForMachine returns the CR of a MachineHealthCheck for a Machine, which is in the namespace
// of the MachineHealthCheck (spec M12.2, M12.3). It shares nothing with its arguments.
func RenderForMachine(owner Owner, target MachineTarget, template *Template) *unstructured.Unstructured {
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(template.Spec)}}
	cr.SetAPIVersion(template.APIVersion)
	cr.SetKind(strings.TrimSuffix(template.Kind, v1alpha1.TemplateKindSuffix))
	cr.SetNamespace(owner.Namespace)
	cr.SetName(target.Name)
	group := schema.FromAPIVersionAndKind(target.APIVersion, target.Kind).Group
	annotations := merged(without(template.CopiedAnnotations, v1alpha1.AnnotationNodeName, v1alpha1.AnnotationTimedOut), map[string]string{
		v1alpha1.AnnotationTemplateName: template.Name,
		group + clonedFromName:          template.Name,
		group + clonedFromGroupKind:     template.GroupVersionKind().GroupKind().String(),
	})
	if target.Node != "" {
		annotations[v1alpha1.AnnotationNodeName] = target.Node
	}
	cr.SetAnnotations(annotations)
	labels := merged(without(template.CopiedLabels, v1alpha1.LabelControlPlane), map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf})
	if target.ControlPlane {
		labels[v1alpha1.LabelControlPlane] = ""
	}
	if target.Cluster != "" {
		labels[v1beta1.LabelClusterName] = target.Cluster
	}
	cr.SetLabels(labels)
	machine := metav1.OwnerReference{APIVersion: target.APIVersion, Kind: target.Kind, Name: target.Name, UID: target.UID, Controller: new(false)}
	cr.SetOwnerReferences([]metav1.OwnerReference{owner.reference(), machine})
	return cr
}

// Ends of the annotations by which a CR names its template, after the group of the Machine API.
const (
	clonedFromName      = "/cloned-from-name"
	clonedFromGroupKind = "/cloned-from-groupkind"
)

// without returns a copy that lacks the keys. Only the controller may set them: a template must not
// name a Node, for example.
func without(copied map[string]string, keys ...string) map[string]string {
	rest := maps.Clone(copied)
	for _, key := range keys {
		delete(rest, key)
	}
	return rest
}

// merged returns both maps in a new one; the second wins.
func merged(copied, ours map[string]string) map[string]string {
	all := make(map[string]string, len(copied)+len(ours))
	for _, values := range []map[string]string{copied, ours} {
		maps.Copy(all, values)
	}
	return all
}
