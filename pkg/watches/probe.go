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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
)

// probeTimeout bounds one probe of a kind.
const probeTimeout = 15 * time.Second

// found is the result of one probe of a kind.
type found struct {
	mapping *meta.RESTMapping
	// err is a *meta.NoKindMatchError or a *ForbiddenError.
	err error
	// gone means that no object of the kind can exist.
	gone bool
	// unsure means that it could not be found out whether there can be any.
	unsure bool
	// watchable means that the kind can be watched, whatever else is forbidden.
	watchable bool
	// polled is set if the kind can be read but not watched.
	polled map[types.NamespacedName]reading
}

// readingVerbs are what a watch needs.
var readingVerbs = []string{"get", "list", "watch"}

// probe asks the API server about a kind, and reads the named objects if the kind has
// to be polled. An error means that there was no answer.
func (s *Set) probe(ctx context.Context, gvk schema.GroupVersionKind, k *kind, names []types.NamespacedName) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	mapping, err := s.discover(ctx, gvk)
	if meta.IsNoMatchError(err) {
		gone, failure := s.hasGone(ctx, gvk)
		if failure != nil {
			utilruntime.HandleErrorWithContext(ctx, failure, "Cannot find out whether objects of a kind exist that is not served", "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String())
		}
		return found{err: err, gone: gone, unsure: failure != nil}, nil
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

// crdResource is that of the CustomResourceDefinitions.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// hasGone reports whether no object of a kind can exist, of which discovery says that it
// is not served. The API server removes a CustomResourceDefinition after its last object,
// so there is none if no definition has the kind, in whatever version. A group without any
// definition may be that of an aggregated API, which keeps its objects elsewhere: while one
// is down discovery fails, and that is no answer, but it may serve the kind in another
// version.
func (s *Set) hasGone(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	if s.config.CRDs == nil {
		return false, nil
	}
	names, known := s.config.CRDs(gvk.Group)
	if !known {
		return false, nil
	}
	for _, name := range names {
		// They may be listed, not read one by one.
		list, err := s.config.Client.Resource(crdResource).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return false, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		}
		if slices.ContainsFunc(list.Items, func(crd unstructured.Unstructured) bool { return mayDefine(crd, gvk) }) {
			return false, nil
		}
	}
	if len(names) > 0 {
		return true, nil
	}
	version, err := s.preferredVersion(ctx, gvk.Group)
	return version == "" && err == nil, err
}

// mayDefine reports whether a CustomResourceDefinition has a kind, as far as it says so.
func mayDefine(crd unstructured.Unstructured, gvk schema.GroupVersionKind) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	return kind == "" || (kind == gvk.Kind && group == gvk.Group)
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
