// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// informer is a running informer.
type informer struct {
	cache.SharedIndexInformer
	ready  cache.DoneChecker
	cancel context.CancelFunc
	// failure is the last error of the watch, nil if there was none.
	failure atomic.Pointer[error]
}

// synced tells whether the cache, and the handler behind it, have seen the first
// list.
func (i *informer) synced() bool { return cache.IsDone(i.ready) }

// pending says why a cache that is not synced is not.
func (i *informer) pending() error {
	if failure := i.failure.Load(); failure != nil {
		return fmt.Errorf("%w: %w", ErrPending, *failure)
	}
	return ErrPending
}

// watch returns a started informer for gvk. Informers stop with ctx, which is that
// of the Set.
func (s *Set) watch(ctx context.Context, gvk schema.GroupVersionKind, mapping *meta.RESTMapping) (*informer, error) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String())
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logger))
	shared := dynamicinformer.NewFilteredDynamicInformer(s.config.Client, mapping.Resource, metav1.NamespaceAll, 0, s.config.Indexers, nil).Informer()
	started := &informer{SharedIndexInformer: shared, cancel: cancel}
	if err := s.configure(ctx, gvk, started); err != nil {
		cancel()
		return nil, fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	s.wg.Go(func() { shared.RunWithContext(ctx) })
	s.wg.Go(func() {
		if cache.WaitFor(ctx, "", started.ready) {
			logger.V(2).Info("Watching")
			s.announce(gvk)
		}
	})
	return started, nil
}

func (s *Set) configure(ctx context.Context, gvk schema.GroupVersionKind, i *informer) error {
	err := i.SetTransform(func(object any) (any, error) {
		if u, ok := object.(*unstructured.Unstructured); ok {
			return s.config.Parse(u), nil
		}
		return object, nil // Parsed before.
	})
	if err != nil {
		return err
	}
	err = i.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		if first := i.failure.Swap(&err) == nil; first && !i.synced() {
			s.announce(gvk)
		}
		// The reflector tries again by itself; whether it ever can is another question.
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			s.queue.Add(gvk)
		}
	})
	if err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	registration, err := i.AddEventHandlerWithOptions(s.config.Handler, cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return err
	}
	i.ready = registration.HasSyncedChecker()
	return nil
}

// announce tells those who want the kind that its state has changed.
func (s *Set) announce(gvk schema.GroupVersionKind) {
	s.mu.RLock()
	var owners []string
	if k := s.kinds[gvk]; k != nil {
		owners = k.owners()
	}
	s.mu.RUnlock()
	if len(owners) > 0 {
		s.config.Changed(owners)
	}
}
