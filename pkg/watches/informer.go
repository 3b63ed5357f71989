// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// informer is a running informer.
type informer struct {
	cache.SharedIndexInformer
	connection

	ready  cache.DoneChecker
	cancel context.CancelFunc
}

// synced reports whether the cache, and the handler behind it, have seen the first
// list.
func (i *informer) synced() bool { return cache.IsDone(i.ready) }

// unread returns nil if the cache is filled and follows the API server.
func (i *informer) unread() error {
	if i.synced() && !i.isStale() {
		return nil
	}
	if cause := i.cause(); cause != nil {
		return &UnreadableError{cause}
	}
	return ErrPending
}

// watch returns a started informer for a kind. Informers stop with ctx, which is that of the Set.
func (s *Set[K]) watch(ctx context.Context, key K, mapping *meta.RESTMapping) *informer {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), logValues(key)...)
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logger))
	started := &informer{cancel: cancel}
	started.failed = func(err error, first bool) {
		if first && !started.synced() {
			s.notify(key)
		}
		// The informer tries again by itself, but it may never succeed.
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			s.queue.Add(key)
		}
	}
	started.changed = func() { s.notify(key) }
	name := s.config.Name + "/" + mapping.Resource.GroupResource().String()
	source := s.config.Freshness.follow(name, &started.connection, listWatch(s.config.Client.Resource(mapping.Resource), ""), plainLists{})
	context.AfterFunc(ctx, func() { s.config.Freshness.forget(name, &started.connection) })
	started.SharedIndexInformer = cache.NewSharedIndexInformerWithOptions(source, &unstructured.Unstructured{},
		cache.SharedIndexInformerOptions{Indexers: s.config.Indexers, ObjectDescription: mapping.Resource.String()})
	s.configure(ctx, started)
	s.wg.Go(func() { started.RunWithContext(ctx) })
	s.wg.Go(func() {
		if cache.WaitFor(ctx, "", started.ready) {
			logger.V(2).Info("Watching")
			s.notify(key)
		}
	})
	return started
}

// configure sets up an informer. Only one that was started would refuse that.
func (s *Set[K]) configure(ctx context.Context, i *informer) {
	utilruntime.Must(i.SetTransform(func(object any) (any, error) {
		if u, ok := object.(*unstructured.Unstructured); ok {
			return s.config.Parse(u), nil
		}
		return object, nil // Parsed before.
	}))
	logger := klog.FromContext(ctx)
	registration, err := i.AddEventHandlerWithOptions(s.config.Handler, cache.HandlerOptions{Logger: &logger})
	utilruntime.Must(err)
	i.ready = registration.HasSyncedChecker()
}

// notify calls Changed with the owners of a kind.
func (s *Set[K]) notify(key K) {
	s.mu.RLock()
	var owners []string
	if k := s.kinds[key]; k != nil {
		owners = sets.List(k.owners)
	}
	s.mu.RUnlock()
	if len(owners) > 0 || s.config.Keep {
		s.config.Changed(owners)
	}
}
