// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// probeTimeout bounds one probe of a kind.
const probeTimeout = 15 * time.Second

// found is the result of one probe of a kind.
type found struct {
	mapping *meta.RESTMapping
	// versions are those in which the kind is served.
	versions []string
	// err is a *meta.NoKindMatchError or a *ForbiddenError.
	err error
	// gone means that no object of the kind can exist.
	gone bool
	// watchable means that the kind can be watched, also if other verbs are forbidden.
	watchable bool
}

// readingVerbs are what a watch needs.
var readingVerbs = []string{"get", "list", "watch"}

// probe asks the API server about a kind. An error means that there was no answer.
func (s *Set[K]) probe(ctx context.Context, key K) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	found, err := s.discover(ctx, key)
	if err != nil || found.err != nil {
		return found, err
	}
	denied, err := s.firstDenied(ctx, found.mapping)
	if err != nil {
		return found, err
	}
	if denied != "" {
		found.err = &ForbiddenError{Verb: denied, Resource: found.mapping.Resource.GroupResource()}
	}
	found.watchable = !slices.Contains(readingVerbs, denied)
	return found, nil
}

// discover returns where the kind is served, and in which versions. It asks each time, because a
// cached answer does not notice a CRD that is installed later. No objects of a kind that is not served can exist if all
// CustomResourceDefinitions of the group are those of other kinds, which are served: the API server removes a
// definition after its last object.
func (s *Set[K]) discover(ctx context.Context, key K) (result found, err error) {
	gvk := parts(key)
	result.err = &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	if gvk.Kind == "" {
		return result, nil
	}
	lists, err := Served(ctx, s.config.Discovery, gvk.GroupVersion())
	if err != nil {
		return result, err
	}
	served := sets.New[string]()
	for _, list := range lists {
		gvk.Version = schema.FromAPIVersionAndKind(list.GroupVersion, gvk.Kind).Version
		for i := range list.APIResources {
			served.Insert(list.APIResources[i].Name + "." + gvk.Group)
			if list.APIResources[i].Kind == gvk.Kind {
				result.add(gvk, &list.APIResources[i])
			}
		}
	}
	if result.mapping == nil {
		names, known := s.config.CRDs(gvk.Group)
		result.gone = known && served.HasAll(names...)
	}
	return result, nil
}

// add records that the kind is served in a version. The first one is read.
func (f *found) add(gvk schema.GroupVersionKind, resource *metav1.APIResource) {
	f.versions = append(f.versions, gvk.Version)
	if f.mapping != nil {
		return
	}
	f.err = nil
	f.mapping = &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(resource.Name), GroupVersionKind: gvk, Scope: meta.RESTScopeRoot}
	if resource.Namespaced {
		f.mapping.Scope = meta.RESTScopeNamespace
	}
}

// firstDenied returns the first needed verb that is not permitted everywhere, or
// nothing.
func (s *Set[K]) firstDenied(ctx context.Context, mapping *meta.RESTMapping) (string, error) {
	for _, verb := range s.config.Verbs {
		review, err := s.config.Access.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: mapping.Resource.Group, Version: mapping.Resource.Version, Resource: mapping.Resource.Resource,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("asking for the permission to %s %s: %w", verb, mapping.Resource.GroupResource(), err)
		}
		if !review.Status.Allowed {
			return verb, nil
		}
	}
	return "", nil
}
