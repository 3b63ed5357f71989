// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// group is the API group of the remediation kinds. Only the tests play their remediators.
var group = schema.GroupVersion{Group: "faults.test.nhc-controller.io", Version: "v1alpha1"}

// kindNames are the kinds of CRs: the ranks of an escalation.
var kindNames = []string{"Reboot", "Reimage", "Rebuild"}

// namespace has all templates and CRs.
const namespace = "default"

func remediationsOf(kind string) schema.GroupVersionResource {
	return group.WithResource(strings.ToLower(kind) + "s")
}

func templatesOf(kind string) schema.GroupVersionResource {
	return group.WithResource(strings.ToLower(kind) + "templates")
}

func resources(of func(kind string) schema.GroupVersionResource) []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, kind := range kindNames {
		all = append(all, of(kind))
	}
	return all
}

// manifest has the CRDs, and a ClusterRole for each kind.
func manifest() string {
	var all strings.Builder
	for _, kind := range kindNames {
		all.WriteString(crd(kind))
		all.WriteString(crd(kind + v1alpha1.TemplateKindSuffix))
		all.WriteString(clusterRole(kind))
	}
	return all.String()
}

func crd(kind string) string {
	singular := strings.ToLower(kind)
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.%[3]s}
spec:
  group: %[3]s
  scope: Namespaced
  names: {kind: %[2]s, listKind: %[2]sList, singular: %[1]s, plural: %[1]ss}
  versions:
  - name: %[4]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, singular, kind, group.Group, group.Version)
}

func clusterRole(kind string) string {
	return fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: faults-%[1]s
  labels: {%[2]s: "true"}
rules:
- {apiGroups: [%[3]s], resources: [%[1]stemplates], verbs: [get, list, watch]}
- {apiGroups: [%[3]s], resources: [%[1]ss], verbs: [get, list, watch, create, patch, delete]}
`, strings.ToLower(kind), v1alpha1.LabelAggregate, group.Group)
}

// template is one of the templates of an environment.
type template struct {
	kind, name string
	// multiple permits that CRs are not named like the node.
	multiple bool
}

// templates are those of each environment: one per kind, and another one of the first kind.
var templates = []template{{"Reboot", "gentle", true}, {"Reimage", "image", true}, {"Rebuild", "build", true}, {"Reboot", "harsh", true}, {"Rebuild", "classic", false}}

func (t template) reference() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: group.String(), Kind: t.kind + v1alpha1.TemplateKindSuffix, Namespace: namespace, Name: t.name,
	}
}

// createTemplates creates those that are missing.
func (c *cluster) createTemplates(ctx context.Context) error {
	for _, t := range templates {
		object := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"how": t.name}}},
		}}
		object.SetGroupVersionKind(group.WithKind(t.kind + v1alpha1.TemplateKindSuffix))
		object.SetName(t.name)
		if t.multiple {
			object.SetAnnotations(map[string]string{v1alpha1.AnnotationMultipleTemplates: ""})
		}
		if _, err := c.dynamic.Resource(templatesOf(t.kind)).Namespace(namespace).Apply(ctx, t.name, object, metav1.ApplyOptions{FieldManager: loader}); err != nil {
			return err
		}
	}
	return nil
}

// loader is the field manager of the tests.
const loader = "load"
