// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconcile runs the syncs of a controller. It has the queue and the workers, stops them,
// and handles the result of each sync.
package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// Queue has the keys of the objects to sync.
type Queue = workqueue.TypedRateLimitingInterface[cache.ObjectName]

// The backoff of a sync that fails, and of a sync that waits for a cache to show an own write. The second one
// has no long waits: the cache may catch up by the event of the own write, which wakes nothing.
const (
	failedBase = 100 * time.Millisecond
	failedMax  = time.Minute
	behindBase = 20 * time.Millisecond
	behindMax  = 250 * time.Millisecond
)

// pendingMax is when a sync that waits for a cache is repeated at the latest. Usually a watch calls sooner, but no
// fault of a watch, or of an object that it brought, may stop a check for ever.
const pendingMax = time.Minute

// NewQueue returns a queue with a name for its metrics. Waits use the monotonic clock of the machine.
func NewQueue(name string) Queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](failedBase, failedMax),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: name, Clock: clock.RealClock{}},
	)
}

// Runner hands the keys of a queue to Sync, no key to two workers at a time.
type Runner struct {
	Queue Queue
	// Key is what the log calls a key.
	Key   string
	Clock clock.PassiveClock
	// Sync returns when to look again without an event, zero if never. Two kinds of errors mean that it only
	// has to wait: those of [watches.Unread], after which an event comes or a minute passes, and [*staleness.Error].
	Sync func(ctx context.Context, key cache.ObjectName) (recheck time.Time, err error)

	behind workqueue.TypedRateLimiter[cache.ObjectName]
}

// Run syncs with this many workers once the caches are filled. beside runs as long as syncs begin. When drain is
// closed, Run finishes the running syncs and returns. When ctx is done, it also cancels running requests. It is
// called once, and returns false if nothing has begun.
func (r *Runner) Run(ctx context.Context, drain <-chan struct{}, workers int, synced []cache.DoneChecker, beside ...func(context.Context)) bool {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// begin ends before ctx does. Syncs that have not begun use it.
	begin, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-drain:
			stop()
		case <-begin.Done():
		}
	}()

	defer r.Queue.ShutDown() // Its goroutine ends with Run, also if no worker has begun.
	logger.Info("Waiting until the caches are filled")
	if !cache.WaitFor(begin, "", synced...) { // Without a name the queue does not log.
		return false
	}
	logger.Info("Started", "workers", workers)
	r.behind = workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](behindBase, behindMax)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { r.work(ctx, begin) })
	}
	for _, run := range beside {
		wg.Go(func() { run(begin) })
	}
	<-begin.Done()
	logger.Info("Stopping")
	r.Queue.ShutDown()
	wg.Wait()
	return true
}

// work handles keys until begin is done. A queue that is shutting down still hands
// out what it holds, so the queue alone would not stop it.
func (r *Runner) work(ctx, begin context.Context) {
	defer utilruntime.HandleCrashWithContext(ctx)
	for begin.Err() == nil && r.next(ctx) {
	}
}

// next handles one key. It returns false once the queue has shut down.
func (r *Runner) next(ctx context.Context) bool {
	key, shutdown := r.Queue.Get()
	if shutdown {
		return false
	}
	defer r.Queue.Done(key)
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), r.Key, key.String()))
	recheck, err := r.Sync(ctx, key)
	r.end(ctx, key, recheck, err)
	return true
}

// end queues the key again, as the result of its sync demands.
func (r *Runner) end(ctx context.Context, key cache.ObjectName, recheck time.Time, err error) {
	logger := klog.FromContext(ctx)
	stale, behind := errors.AsType[*staleness.Error](err)
	if !behind {
		r.behind.Forget(key)
	}
	switch {
	case watches.Unread(err):
		logger.V(4).Info("Waiting for a cache to fill", "cause", err.Error())
		r.Queue.Forget(key) // The watch calls when it is ready.
		r.Queue.AddAfter(key, pendingMax)
	case behind:
		logger.V(4).Info("Waiting for a cache to show an own write", "cause", stale.Error(), "since", stale.Since)
		r.Queue.AddAfter(key, r.behind.When(key))
	case apierrors.IsConflict(err):
		logger.V(4).Info("Cache is behind, retrying", "cause", err.Error())
		r.Queue.AddRateLimited(key)
	case err != nil:
		utilruntime.HandleErrorWithContext(ctx, err, "Sync failed, retrying")
		r.Queue.AddRateLimited(key)
	default:
		r.Queue.Forget(key)
		if !recheck.IsZero() {
			r.Queue.AddAfter(key, recheck.Sub(r.Clock.Now()))
		}
	}
}
