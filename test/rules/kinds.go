// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

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

// Kind is a kind that a CustomResourceDefinition defines.
type Kind struct {
	Group, Kind, Plural string
	// Served reports whether it is established, and not about to go.
	Served bool
}

func parseKind(object *unstructured.Unstructured) *Kind {
	field := func(path ...string) string {
		value, _, err := unstructured.NestedString(object.Object, path...)
		if err != nil {
			return ""
		}
		return value
	}
	return &Kind{
		Group: field("spec", "group"), Kind: field("spec", "names", "kind"), Plural: field("spec", "names", "plural"),
		Served: conditionOf(object, "Established") == "True" && object.GetDeletionTimestamp() == nil,
	}
}

func kindKey(group, kind string) string { return group + "/" + kind }

// Role is what the aggregated role permits.
type Role struct{ Rules []rbacv1.PolicyRule }

// aggregatedRole is the name of the ClusterRole (spec 22.2).
const aggregatedRole = "nhc-controller-aggregation"

func parseRole(object *unstructured.Unstructured) (*Role, error) {
	role := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
		return nil, err
	}
	return &Role{role.Rules}, nil
}

// permits reports whether the role has all verbs for a resource.
func (r *Role) permits(group, resource string, verbs ...string) bool {
	if r == nil {
		return false
	}
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
	}
	for _, verb := range verbs {
		if !slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool {
			return has(rule.APIGroups, group) && has(rule.Resources, resource) && has(rule.Verbs, verb) && len(rule.ResourceNames) == 0
		}) {
			return false
		}
	}
	return true
}

// groupOf returns the group of an apiVersion.
func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}
