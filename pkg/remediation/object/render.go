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
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(template.Spec)}}
	cr.SetAPIVersion(template.APIVersion)
	cr.SetKind(strings.TrimSuffix(template.Kind, v1alpha1.TemplateKindSuffix))
	cr.SetNamespace(template.Namespace)
	cr.SetName(Name(target.Node, template))
	cr.SetAnnotations(map[string]string{
		v1alpha1.AnnotationNodeName:     target.Node,
		v1alpha1.AnnotationTemplateName: template.Name,
	})
	labels := map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf}
	if target.ControlPlane {
		labels[v1alpha1.LabelControlPlane] = ""
	}
	cr.SetLabels(labels)
	owners := []metav1.OwnerReference{owner.reference()}
	if target.Machine != nil {
		owners = append(owners, *target.Machine)
	}
	cr.SetOwnerReferences(owners)
	return cr
}
