// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
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
	mapping, versions, err := s.discover(ctx, key)
	if meta.IsNoMatchError(err) {
		gone, failure := s.hasGone(ctx, key)
		if failure != nil {
			utilruntime.HandleErrorWithContext(ctx, failure, "Cannot find out whether objects of a kind exist that is not served", logValues(key)...)
		}
		return found{err: err, gone: gone}, nil
	}
	if err != nil {
		return found{}, err
	}
	denied, err := s.firstDenied(ctx, mapping)
	if err != nil {
		return found{}, err
	}
	if denied == "" {
		return found{mapping: mapping, versions: versions, watchable: true}, nil
	}
	return found{
		mapping:   mapping,
		versions:  versions,
		err:       &ForbiddenError{Verb: denied, Resource: mapping.Resource.GroupResource()},
		watchable: !slices.Contains(readingVerbs, denied),
	}, nil
}

// discover returns where the kind is served, and in which versions. It asks each time, because a
// cached answer does not notice a CRD that is installed later.
func (s *Set[K]) discover(ctx context.Context, key K) (mapping *meta.RESTMapping, versions []string, err error) {
	gvk := parts(key)
	noMatch := &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	if gvk.Kind == "" {
		return nil, nil, noMatch
	}
	candidates := []string{gvk.Version}
	if gvk.Version == "" {
		if !s.anyVersion(key) {
			return nil, nil, noMatch
		}
		if candidates, err = s.versions(ctx, gvk.Group); err != nil {
			return nil, nil, err
		}
	}
	for _, version := range candidates {
		gvk.Version = version
		resources, err := s.resources(ctx, gvk.GroupVersion())
		if err != nil {
			return nil, nil, err
		}
		i := slices.IndexFunc(resources, func(resource metav1.APIResource) bool { return resource.Kind == gvk.Kind })
		if i < 0 {
			continue
		}
		versions = append(versions, version)
		if mapping != nil {
			continue
		}
		mapping = &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(resources[i].Name), GroupVersionKind: gvk, Scope: meta.RESTScopeRoot}
		if resources[i].Namespaced {
			mapping.Scope = meta.RESTScopeNamespace
		}
	}
	if mapping == nil {
		return nil, nil, noMatch
	}
	return mapping, versions, nil
}

// anyVersion reports whether a kind is looked for in all versions.
func (s *Set[K]) anyVersion(key K) bool {
	_, byKind := any(key).(schema.GroupKind)
	return byKind || s.config.Optional
}

// resources returns the served resources of a version of an API group, without
// subresources.
func (s *Set[K]) resources(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error) {
	list, err := s.config.Discovery.ServerResourcesForGroupVersionWithContext(ctx, version.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("discovering %s: %w", version, err)
	}
	return slices.DeleteFunc(slices.Clone(list.APIResources), func(resource metav1.APIResource) bool { return strings.Contains(resource.Name, "/") }), nil
}

// versions returns the versions of an API group that the API server serves, first the one that it
// prefers.
func (s *Set[K]) versions(ctx context.Context, name string) (versions []string, err error) {
	groups, err := s.config.Discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("discovering API groups: %w", err)
	}
	for i := range groups.Groups {
		if group := &groups.Groups[i]; group.Name == name {
			versions = append(versions, group.PreferredVersion.Version)
			for _, other := range group.Versions {
				if other.Version != group.PreferredVersion.Version {
					versions = append(versions, other.Version)
				}
			}
		}
	}
	return versions, nil
}

// crdResource is that of the CustomResourceDefinitions.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// hasGone reports whether no object of a kind can exist. Discovery has said that the kind is
// not served. The API server removes a CustomResourceDefinition after its last object. So there
// is no object if the group has no definition but those of other kinds that are served. A group
// without definitions may belong to an aggregated API, which keeps its objects elsewhere. While
// such an API is down, discovery fails, which is no answer. But it may serve the kind in another
// version.
func (s *Set[K]) hasGone(ctx context.Context, key K) (bool, error) {
	if s.config.CRDs == nil {
		return false, nil
	}
	gvk := parts(key)
	names, known := s.config.CRDs(gvk.Group)
	if !known {
		return false, nil
	}
	versions, err := s.versions(ctx, gvk.Group)
	if err != nil || len(names) == 0 {
		return len(versions) == 0 && err == nil, err
	}
	for _, version := range versions {
		resources, err := s.resources(ctx, schema.GroupVersion{Group: gvk.Group, Version: version})
		if err != nil {
			return false, err
		}
		for _, resource := range resources {
			if resource.Kind != gvk.Kind {
				names = slices.DeleteFunc(names, func(name string) bool { return name == resource.Name+"."+gvk.Group })
			}
		}
	}
	return len(names) == 0, nil
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
