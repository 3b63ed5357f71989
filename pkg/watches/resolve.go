// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// found is what one look at a kind brought.
type found struct {
	mapping *meta.RESTMapping
	// err is a *meta.NoKindMatchError or a *ForbiddenError.
	err error
	// watchable means that the kind can be watched, whatever else is forbidden.
	watchable bool
	// polled is set if the kind can be read but not watched.
	polled map[types.NamespacedName]reading
}

// readingVerbs are what a watch needs.
var readingVerbs = []string{"get", "list", "watch"}

// look asks the API server about a kind, and reads the named objects if the kind has
// to be polled. An error means that there was no answer.
func (s *Set) look(ctx context.Context, gvk schema.GroupVersionKind, k *kind, names []types.NamespacedName) (found, error) {
	mapping, err := s.discover(ctx, gvk)
	if meta.IsNoMatchError(err) {
		return found{err: err}, nil
	}
	if err != nil {
		return found{}, err
	}
	denied, err := s.firstDenied(ctx, mapping)
	if err != nil {
		return found{}, err
	}
	if denied == "" {
		return found{mapping: mapping, watchable: true}, nil
	}
	if s.config.Poll {
		return found{mapping: mapping, polled: s.poll(ctx, k, mapping, names)}, nil
	}
	return found{
		mapping:   mapping,
		err:       &ForbiddenError{Verb: denied, Resource: mapping.Resource.GroupResource()},
		watchable: !slices.Contains(readingVerbs, denied),
	}, nil
}

// discover returns where the kind is served. It asks each time, because a cached
// answer does not notice a CRD that is installed later.
func (s *Set) discover(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	noMatch := &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	if gvk.Kind == "" {
		return nil, noMatch
	}
	if gvk.Version == "" && s.config.Optional {
		version, err := s.preferredVersion(ctx, gvk.Group)
		if err != nil {
			return nil, err
		}
		gvk.Version = version
	}
	if gvk.Version == "" {
		return nil, noMatch
	}
	resources, err := s.config.Discovery.ServerResourcesForGroupVersionWithContext(ctx, gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return nil, noMatch
	}
	if err != nil {
		return nil, fmt.Errorf("discovering %s: %w", gvk.GroupVersion(), err)
	}
	for _, resource := range resources.APIResources {
		if resource.Kind != gvk.Kind || strings.Contains(resource.Name, "/") {
			continue
		}
		scope := meta.RESTScope(meta.RESTScopeRoot)
		if resource.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		return &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(resource.Name), GroupVersionKind: gvk, Scope: scope}, nil
	}
	return nil, noMatch
}

// preferredVersion returns the version of an API group that the API server prefers,
// or nothing if it does not serve the group.
func (s *Set) preferredVersion(ctx context.Context, name string) (string, error) {
	groups, err := s.config.Discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return "", fmt.Errorf("discovering API groups: %w", err)
	}
	for _, group := range groups.Groups {
		if group.Name == name {
			return group.PreferredVersion.Version, nil
		}
	}
	return "", nil
}

// firstDenied returns the first needed verb that is not permitted everywhere, or
// nothing.
func (s *Set) firstDenied(ctx context.Context, mapping *meta.RESTMapping) (string, error) {
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

// poll reads the wanted objects. One that cannot be read now keeps its last
// reading.
func (s *Set) poll(ctx context.Context, k *kind, mapping *meta.RESTMapping, names []types.NamespacedName) map[types.NamespacedName]reading {
	readings := make(map[types.NamespacedName]reading, len(names))
	for _, name := range names {
		client := dynamic.ResourceInterface(s.config.Client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			if name.Namespace == "" {
				continue // A reference that names no object.
			}
			client = s.config.Client.Resource(mapping.Resource).Namespace(name.Namespace)
		}
		object, err := client.Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			readings[name] = reading{object: s.config.Parse(object)}
		case apierrors.IsNotFound(err):
			readings[name] = reading{err: err}
		case apierrors.IsForbidden(err):
			readings[name] = reading{err: &ForbiddenError{Verb: "get", Resource: mapping.Resource.GroupResource()}}
		default:
			readings[name] = s.lastReading(k, name, err)
		}
	}
	return readings
}

func (s *Set) lastReading(k *kind, name types.NamespacedName, err error) reading {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if last, read := k.polled[name]; read {
		return last
	}
	return reading{err: fmt.Errorf("%w: %w", ErrPending, err)}
}
