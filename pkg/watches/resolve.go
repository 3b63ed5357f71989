// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
)

// lookTimeout bounds one look at a kind.
const lookTimeout = 15 * time.Second

func (s *Set) processNext(ctx context.Context) bool {
	gvk, shutdown := s.queue.Get()
	if shutdown {
		return false
	}
	defer s.queue.Done(gvk)
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String())

	found, err := s.look(ctx, gvk)
	var settled bool
	if err == nil {
		settled, err = s.settle(ctx, gvk, found)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.fail(gvk, err)
		utilruntime.HandleErrorWithLogger(logger, err, "Looking at a kind failed, retrying")
		s.queue.AddRateLimited(gvk)
	case settled:
		s.queue.Forget(gvk)
	case found.polled != nil:
		s.queue.Forget(gvk)
		s.queue.AddAfter(gvk, s.config.Interval)
	default:
		// The first looks follow one another quickly: a CRD that was just created is
		// not served yet. They end at one per Interval.
		s.queue.AddRateLimited(gvk)
	}
	return true
}

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

// look asks the API server about a kind. An error means that there was no answer.
func (s *Set) look(ctx context.Context, gvk schema.GroupVersionKind) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	names, wanted := s.wantedNames(gvk)
	if !wanted {
		return found{}, nil
	}
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
		return found{mapping: mapping, polled: s.poll(ctx, gvk, mapping, names)}, nil
	}
	return found{
		mapping:   mapping,
		err:       &ForbiddenError{Verb: denied, Resource: mapping.Resource.GroupResource()},
		watchable: !slices.Contains(readingVerbs, denied),
	}, nil
}

// settle makes what was found the state of the kind. It returns true if nothing
// needs to be looked at again before an event says so.
func (s *Set) settle(ctx context.Context, gvk schema.GroupVersionKind, found found) (bool, error) {
	s.mu.Lock()
	k := s.kinds[gvk]
	if k == nil || (found.mapping == nil && found.err == nil) {
		s.mu.Unlock()
		return true, nil // Not wanted any more, or not when it was looked at; then Want has queued it.
	}
	before := *k
	k.err, k.polled = found.err, found.polled
	if !found.watchable || before.mapping == nil || before.mapping.Resource != found.mapping.Resource {
		k.stop()
	}
	k.mapping = found.mapping
	var err error
	if found.watchable && k.informer == nil {
		k.informer, err = s.watch(ctx, gvk, found.mapping)
		if err != nil {
			k.err = err
		}
	}
	changed := k.differs(&before)
	settled := s.settled(k, found)
	s.mu.Unlock()
	if changed {
		if found.err != nil {
			klog.FromContext(ctx).V(2).Info("Kind cannot be used", "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String(), "cause", found.err.Error())
		}
		s.announce(gvk)
	}
	return settled, err
}

// settled tells whether nothing needs to be looked at again before an event says so:
// the kind is watched, or it is optional and not about to be served. s.mu must be
// held.
func (s *Set) settled(k *kind, found found) bool {
	if !s.config.Optional || !meta.IsNoMatchError(found.err) {
		return found.watchable && found.err == nil
	}
	if k.attempts == 0 {
		return true
	}
	k.attempts--
	return false
}

// fail records why a kind could not be looked at. What was known before stays: no
// answer is not an answer.
func (s *Set) fail(gvk schema.GroupVersionKind, err error) {
	s.mu.Lock()
	k := s.kinds[gvk]
	first := k != nil && k.err == ErrPending //nolint:errorlint // the bare one, which somebody may wait for
	if k != nil && errors.Is(k.err, ErrPending) {
		k.err = fmt.Errorf("%w: %w", ErrPending, err)
	}
	s.mu.Unlock()
	if first {
		s.announce(gvk)
	}
}

// differs tells whether the kind looks another way than before to those who want
// it. A filling cache is announced when it is full.
func (k *kind) differs(before *kind) bool {
	if (k.err == nil) != (before.err == nil) || (k.err != nil && k.err.Error() != before.err.Error()) {
		return true
	}
	if (k.polled == nil) != (before.polled == nil) {
		return true
	}
	return !maps.EqualFunc(k.polled, before.polled, func(a, b reading) bool {
		return reflect.DeepEqual(a.object, b.object) && fmt.Sprint(a.err) == fmt.Sprint(b.err)
	})
}

func (s *Set) wantedNames(gvk schema.GroupVersionKind) (names []types.NamespacedName, wanted bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.kinds[gvk]
	if k == nil {
		return nil, false
	}
	for _, owned := range k.wants {
		names = append(names, owned...)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(names), true
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
func (s *Set) poll(ctx context.Context, gvk schema.GroupVersionKind, mapping *meta.RESTMapping, names []types.NamespacedName) map[types.NamespacedName]reading {
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
			readings[name] = s.lastReading(gvk, name, err)
		}
	}
	return readings
}

func (s *Set) lastReading(gvk schema.GroupVersionKind, name types.NamespacedName, err error) reading {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if k := s.kinds[gvk]; k != nil {
		if last, read := k.polled[name]; read {
			return last
		}
	}
	return reading{err: fmt.Errorf("%w: %w", ErrPending, err)}
}
