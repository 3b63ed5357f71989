// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Template is what counts of a template.
type Template struct {
	// Spec is spec.template.spec, which HasSpec reports to be a map.
	Spec    map[string]any
	HasSpec bool
	// Multiple permits that CRs are not named like the node.
	Multiple bool
}

func parseTemplate(object *unstructured.Unstructured) *Template {
	template := &Template{}
	spec, found, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec")
	if found && err == nil {
		template.Spec, template.HasSpec = spec.(map[string]any)
	}
	_, template.Multiple = object.GetAnnotations()[v1alpha1.AnnotationMultipleTemplates]
	return template
}
