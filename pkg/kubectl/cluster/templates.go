// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// readTemplate reads a template. That the controller may use it, its condition Disabled says.
func (r *factsReader) readTemplate(ctx context.Context, reference corev1.ObjectReference) error {
	if _, known := r.facts.Templates[lint.ReferenceOf(&reference)]; known {
		return nil
	}
	step := remediation.Step{Reference: reference}
	remediationKind, ok := step.RemediationKind()
	if !ok || step.Incomplete() {
		return nil // Which needs no cluster to be seen.
	}
	templates, err := r.mapping(step.TemplateKind())
	if err != nil {
		return r.notServed(&reference, err)
	}
	remediations, err := r.mapping(remediationKind)
	if err != nil {
		return r.notServed(&reference, err)
	}
	namespaced := templates.Scope.Name() == meta.RESTScopeNameNamespace
	problem := remediation.CheckScope(step, namespaced)
	if problem == nil {
		problem = remediation.CheckRemediationScope(step, namespaced, remediations.Scope.Name() == meta.RESTScopeNameNamespace)
	}
	if problem != nil {
		r.problem(&reference, problem)
		return nil
	}
	known := lint.Template{ClusterScoped: !namespaced}
	var read *unstructured.Unstructured
	if namespaced {
		read, err = r.Dynamic.Resource(templates.Resource).Namespace(reference.Namespace).Get(ctx, reference.Name, metav1.GetOptions{})
	} else {
		read, err = r.Dynamic.Resource(templates.Resource).Get(ctx, reference.Name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		known.Problem = remediation.Missing(reference).Message
		known.Others = r.namesOf(ctx, templates.Resource)
	case err != nil:
		if err := r.miss(templates.Resource.GroupResource().String(), "get", err); err != nil {
			return err
		}
	default:
		known.Object = object.ParseTemplate(read)
	}
	r.facts.Templates[lint.ReferenceOf(&reference)] = known
	return nil
}

// namesOf returns the names of some objects of a kind. Where they cannot be listed there are none to offer.
func (r *factsReader) namesOf(ctx context.Context, resource schema.GroupVersionResource) (names []string) {
	list, err := r.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{Limit: 10})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, strings.TrimPrefix(list.Items[i].GetNamespace()+"/"+list.Items[i].GetName(), "/"))
	}
	return names
}

// notServed records that a kind of a template does not exist, or that this cannot be known.
func (r *factsReader) notServed(reference *corev1.ObjectReference, err error) error {
	if !meta.IsNoMatchError(err) {
		return r.miss(reference.Kind, "find", err)
	}
	r.problem(reference, remediation.NotFound(err.Error()))
	return nil
}

// mapping returns how a kind is served. Without a version, any will do.
func (c *Clients) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapper, err := c.Mapper()
	if err != nil {
		return nil, err
	}
	if kind.Version == "" {
		return mapper.RESTMapping(kind.GroupKind())
	}
	return mapper.RESTMapping(kind.GroupKind(), kind.Version)
}
