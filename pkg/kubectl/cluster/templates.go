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
	step := remediation.Step{Reference: reference}
	if _, known := r.facts.Templates[reference]; known || step.Incomplete() || remediation.CheckReference(step) != nil {
		return nil // What is missing in the reference needs no cluster to be seen.
	}
	client, resource, err := r.Referred(&reference)
	var read *unstructured.Unstructured
	if err == nil {
		read, err = client.Get(ctx, reference.Name, metav1.GetOptions{})
	}
	switch {
	case meta.IsNoMatchError(err):
		r.facts.Templates[reference] = lint.Template{Problem: remediation.NotFound(err.Error()).Message}
	case apierrors.IsNotFound(err):
		r.facts.Templates[reference] = lint.Template{Problem: remediation.Missing(reference).Message, Others: r.namesOf(ctx, step.TemplateKind())}
	case err != nil:
		return r.miss(&r.facts.Snapshot, "get", resource, err)
	default:
		r.facts.Templates[reference] = lint.Template{Object: object.ParseTemplate(read)}
	}
	return nil
}

// namesOf returns the names of some objects of a kind. Where they cannot be listed there are none to offer.
func (r *factsReader) namesOf(ctx context.Context, kind schema.GroupVersionKind) (names []string) {
	mapping, err := r.mapping(kind)
	if err != nil {
		return nil
	}
	list, err := r.Dynamic.Resource(mapping.Resource).List(ctx, metav1.ListOptions{Limit: 10})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, strings.TrimPrefix(list.Items[i].GetNamespace()+"/"+list.Items[i].GetName(), "/"))
	}
	return names
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
