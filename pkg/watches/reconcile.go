// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"slices"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// confirmAfter is the time between a new refusal and the probe that confirms it.
const confirmAfter = 2 * time.Second

// reconcile probes a kind, stores the result as the state of the kind, and schedules the
// next probe.
func (s *Set[K]) reconcile(ctx context.Context, key K) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), logValues(key)...)
	s.mu.RLock()
	k := s.kinds[key]
	s.mu.RUnlock()
	if k == nil {
		return
	}
	found, err := s.probe(ctx, key)
	if err == nil && s.newlyForbidden(k, found) {
		// An API server that has just started refuses everything until it has read the roles.
		logger.V(2).Info("A permission was refused, asking again", "after", confirmAfter)
		select {
		case <-ctx.Done():
			return
		case <-time.After(confirmAfter):
			found, err = s.probe(ctx, key)
		}
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if s.fail(key, k, err) {
			utilruntime.HandleErrorWithLogger(logger, err, "Probing a kind failed, retrying")
			s.queue.AddRateLimited(key)
		}
	case s.update(ctx, key, k, found):
		s.queue.Forget(key)
	default:
		// The first probes follow one another quickly: a CRD that was just created is
		// not served yet. They end at one per probeInterval.
		s.queue.AddRateLimited(key)
	}
}

// newlyForbidden reports whether a verb is forbidden that was not known to be.
func (s *Set[K]) newlyForbidden(k *kind, found found) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return found.mapping != nil && found.err != nil && (k.err == nil || k.err.Error() != found.err.Error())
}

// update stores the result of a probe as the state of the kind, and notifies the owners of
// a change. It returns true if the kind need not be probed again before an event.
func (s *Set[K]) update(ctx context.Context, key K, k *kind, found found) (settled bool) {
	s.mu.Lock()
	if s.kinds[key] != k {
		s.mu.Unlock()
		return true // Not wanted any more, or again: then Want has queued it.
	}
	before := *k
	s.apply(ctx, key, k, found)
	settled = found.err == nil || found.gone // Then an event comes.
	changed := k.differs(&before)
	if s.needless(k) {
		s.drop(key, k)
		settled, changed = true, true
	}
	s.mu.Unlock()
	if changed {
		if found.err != nil {
			klog.FromContext(ctx).V(2).Info("Kind cannot be used", append(logValues(key), "cause", found.err.Error())...)
		}
		s.notify(key)
	}
	return settled
}

// apply stores the result of a probe, and starts or stops the informer accordingly. s.mu
// must be held.
func (s *Set[K]) apply(ctx context.Context, key K, k *kind, found found) {
	if k.mapping == nil || !found.watchable || k.mapping.Resource != found.mapping.Resource {
		k.stop()
	}
	k.mapping, k.versions, k.err, k.gone = found.mapping, found.versions, found.err, found.gone
	if k.gone {
		k.last = nil // Its objects are gone, too, also if it is served again.
	}
	if found.watchable && k.informer == nil {
		k.informer = s.watch(ctx, key, found.mapping)
	}
}

// fail records why a kind could not be probed, and returns false if it is not wanted any
// more. The earlier state stays: an error is not an answer (spec P5).
func (s *Set[K]) fail(key K, k *kind, err error) bool {
	s.mu.Lock()
	current := s.kinds[key] == k
	first := current && errors.Is(k.err, ErrPending)
	if current && Unread(k.err) {
		k.err = &UnreadableError{err}
	}
	s.mu.Unlock()
	if first {
		s.notify(key)
	}
	return current
}

// differs reports whether the state of the kind has changed for its owners. A cache that
// is filling is no change before it is full.
func (k *kind) differs(before *kind) bool {
	if (k.err == nil) != (before.err == nil) || (k.err != nil && k.err.Error() != before.err.Error()) {
		return true
	}
	return k.gone != before.gone || !slices.Equal(k.versions, before.versions)
}
