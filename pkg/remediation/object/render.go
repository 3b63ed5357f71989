// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Target is what a CR is for.
type Target struct {
	// Node is the name of the node.
	Node         string
	ControlPlane bool
	// Machine is the second owner of the CR, nil if there is none (spec 11.3).
	Machine *metav1.OwnerReference
}

// Render returns the CR for a target (spec 11.1, 11.3). It shares nothing with its
// arguments.
func Render(owner Owner, target Target, template *Template) *unstructured.Unstructured {
	owners := []metav1.OwnerReference{owner.reference()}
	if target.Machine != nil {
		owners = append(owners, *target.Machine)
	}
	return newCR(template, template.Namespace, Name(target.Node, template), nil, nil, target.Node, target.ControlPlane, owners)
}

// newCR returns a CR of a template with what all CRs have, and these annotations and labels. The name
// of the node is empty if there is none.
func newCR(template *Template, namespace, name string, annotations, labels map[string]string, node string, controlPlane bool, owners []metav1.OwnerReference) *unstructured.Unstructured {
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(template.Spec)}}
	cr.SetAPIVersion(template.APIVersion)
	cr.SetKind(strings.TrimSuffix(template.Kind, v1alpha1.TemplateKindSuffix))
	cr.SetNamespace(namespace)
	cr.SetName(name)
	annotations = merged(annotations, map[string]string{v1alpha1.AnnotationTemplateName: template.Name})
	if node != "" {
		annotations[v1alpha1.AnnotationNodeName] = node
	}
	cr.SetAnnotations(annotations)
	labels = merged(labels, map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf})
	if controlPlane {
		labels[v1alpha1.LabelControlPlane] = ""
	}
	cr.SetLabels(labels)
	cr.SetOwnerReferences(owners)
	return cr
}
