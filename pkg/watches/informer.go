// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// informer is a running informer.
type informer struct {
	cache.SharedIndexInformer
	ready   cache.DoneChecker
	contact *contact
	cancel  context.CancelFunc
	// failure is the last error of the watch, nil if there was none. No answer within
	// reasonable time is a failure too.
	failure atomic.Pointer[error]
	// patience is how long the cache may take to fill before another informer has a
	// try, overdue whether it has taken longer.
	patience time.Duration
	overdue  atomic.Bool
	// lagging means that the cache did not show our own write for too long: another
	// informer is to list the objects anew.
	lagging atomic.Bool
}

// The patience with an informer. The first is the time after which an API server
// gives up on a list itself; the next informer gets twice as long, because the list
// may be large and not lost.
const (
	firstPatience = time.Minute
	maxPatience   = 8 * time.Minute
)

// errSilent is the failure of an informer whose requests are not answered.
var errSilent = errors.New("the API server has not listed the objects yet")

// errLagging is the failure of a cache that does not show our own write.
var errLagging = errors.New("the watch has not brought what was written")

// synced tells whether the cache, and the handler behind it, have seen the first
// list.
func (i *informer) synced() bool { return cache.IsDone(i.ready) }

// readable reports whether the cache is filled and follows the API server.
func (i *informer) readable() bool { return i.synced() && !i.contact.isLost() && !i.lagging.Load() }

// unreadable reports whether the cache is not readable and may never be.
func (i *informer) unreadable() bool { return !i.readable() && i.pending() != ErrPending } //nolint:errorlint // the bare one is meant

// stuck tells whether the cache should have been filled long ago, or has to be filled
// anew.
func (i *informer) stuck() bool { return i.lagging.Load() || (!i.synced() && i.overdue.Load()) }

// pending says why a cache that is not readable is not.
func (i *informer) pending() error {
	if failure := i.failure.Load(); failure != nil {
		return fmt.Errorf("%w: %w", ErrPending, *failure)
	}
	if i.contact.isLost() {
		return fmt.Errorf("%w: %w", ErrPending, errLost)
	}
	return ErrPending
}

// watch returns a started informer for gvk. Informers stop with ctx, which is that
// of the Set. If it replaces one that is stuck, the kind stays as unreadable as it is
// until the new one has succeeded.
func (s *Set) watch(ctx context.Context, gvk schema.GroupVersionKind, mapping *meta.RESTMapping, replaced *informer) (*informer, error) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String())
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logger))
	contact := &contact{}
	source := contact.listerWatcher(s.config.Client, s.config.Client.Resource(mapping.Resource), replaced != nil)
	shared := cache.NewSharedIndexInformerWithOptions(source, &unstructured.Unstructured{},
		cache.SharedIndexInformerOptions{Indexers: s.config.Indexers, ObjectDescription: mapping.Resource.String()})
	started := &informer{SharedIndexInformer: shared, contact: contact, cancel: cancel, patience: firstPatience}
	contact.changed = func(lost bool) { s.follow(ctx, gvk, started, lost) }
	if replaced != nil {
		if !replaced.synced() {
			started.patience = min(2*replaced.patience, maxPatience)
		}
		started.failure.Store(replaced.failure.Load())
	}
	if err := s.configure(ctx, gvk, started); err != nil {
		cancel()
		return nil, fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	s.wg.Go(func() { shared.RunWithContext(ctx) })
	s.wg.Go(func() { s.await(ctx, gvk, started) })
	return started, nil
}

// follow tells those who want the kind that its cache does not follow the API server any
// more, or does so again.
func (s *Set) follow(ctx context.Context, gvk schema.GroupVersionKind, i *informer, lost bool) {
	if ctx.Err() != nil {
		return
	}
	if lost {
		utilruntime.HandleErrorWithContext(ctx, i.pending(), "Going on without a kind: no watch of it has been open", "for", lostAfter)
	} else {
		i.failure.Store(nil)
		klog.FromContext(ctx).Info("Watching again")
	}
	s.announce(gvk)
}

// await tells those who want the kind when the cache is filled, and when it is not
// within reasonable time, so that nobody waits for an API that never answers.
func (s *Set) await(ctx context.Context, gvk schema.GroupVersionKind, i *informer) {
	if !i.fills(ctx, s.config.Interval) && i.failure.CompareAndSwap(nil, &errSilent) {
		utilruntime.HandleErrorWithContext(ctx, errSilent, "Going on without a kind")
		s.announce(gvk)
	}
	if !i.fills(ctx, i.patience-s.config.Interval) {
		i.overdue.Store(true)
		s.queue.Add(gvk)
	}
	if cache.WaitFor(ctx, "", i.ready) {
		klog.FromContext(ctx).V(2).Info("Watching")
		s.announce(gvk)
	}
}

// fills waits for the cache for some time. It returns false if that has passed: not
// if ctx is done.
func (i *informer) fills(ctx context.Context, within time.Duration) bool {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return cache.WaitFor(limited, "", i.ready) || ctx.Err() != nil
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
