// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// hashLength is the number of hex digits that tell CRs of several templates apart.
const hashLength = 8

// Name returns the name of the CR for node: that of the node itself, because some
// remediators find the node by it, or where the template permits another one a
// name that differs for every template. It is a valid object name, and the same
// each time: the name is the lock against a second CR.
func Name(node string, template *Template) string {
	if !template.SupportsMultiple() {
		return node
	}
	key := template.Namespace + "/" + template.Name
	if len(node)+1+hashLength <= validation.DNS1123SubdomainMaxLength {
		return node + "-" + digest(key)
	}
	cut := node[:validation.DNS1123SubdomainMaxLength-1-hashLength]
	// A name must not have a part that ends in a dash or begins with one.
	return strings.TrimRight(cut, ".-") + "-" + digest(node+"/"+key)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// Render returns the CR for a node (spec 11.1, 11.3). It shares nothing with its
// arguments.
func Render(owner Owner, node *Node, template *Template) *unstructured.Unstructured {
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(template.Spec)}}
	cr.SetAPIVersion(template.APIVersion)
	cr.SetKind(strings.TrimSuffix(template.Kind, v1alpha1.TemplateKindSuffix))
	cr.SetNamespace(template.Namespace)
	cr.SetName(Name(node.Name, template))
	cr.SetAnnotations(map[string]string{
		v1alpha1.AnnotationNodeName:     node.Name,
		v1alpha1.AnnotationTemplateName: template.Name,
	})
	labels := map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf}
	if node.ControlPlane {
		labels[v1alpha1.LabelControlPlane] = ""
	}
	cr.SetLabels(labels)
	owners := []metav1.OwnerReference{owner.reference()}
	if machine := node.Machines.owner(template); machine != nil {
		owners = append(owners, *machine)
	}
	cr.SetOwnerReferences(owners)
	return cr
}
