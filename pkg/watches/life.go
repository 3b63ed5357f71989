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

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// lookTimeout bounds one look at a kind.
const lookTimeout = 15 * time.Second

// attend looks at a kind once, makes what it finds the state of the kind, and has it
// looked at again when that is due.
func (s *Set) attend(ctx context.Context, gvk schema.GroupVersionKind) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String())
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	k, names := s.begin(gvk, cancel)
	if k == nil {
		return // Not wanted any more.
	}
	found, err := s.look(looking, gvk, k, names)
	var settled bool
	if err == nil {
		settled, err = s.settle(ctx, gvk, k, found)
	}
	switch {
	case ctx.Err() != nil:
	case err == errUnconfirmed: //nolint:errorlint // a signal of settle, and no failure
		logger.V(2).Info("A permission was refused, asking again", "after", confirmAfter)
		s.queue.AddAfter(gvk, confirmAfter)
	case err != nil:
		if s.fail(gvk, k, err) {
			utilruntime.HandleErrorWithLogger(logger, err, "Looking at a kind failed, retrying")
			s.queue.AddRateLimited(gvk)
		}
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
}

// begin returns a kind to be looked at and the objects that are wanted of it, or nil
// if nobody wants it any more. When that happens later, abandon is called.
func (s *Set) begin(gvk schema.GroupVersionKind, abandon context.CancelFunc) (*kind, []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[gvk]
	if k == nil {
		return nil, nil
	}
	k.abandon = abandon
	var names []types.NamespacedName
	for _, owned := range k.wants {
		names = append(names, owned...)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return k, slices.Compact(names)
}

// settle makes what was found the state of the kind. It returns true if nothing
// needs to be looked at again before an event says so.
func (s *Set) settle(ctx context.Context, gvk schema.GroupVersionKind, k *kind, found found) (bool, error) {
	s.mu.Lock()
	if s.kinds[gvk] != k {
		s.mu.Unlock()
		return true, nil // Not wanted any more, or again: then Want has queued it.
	}
	before := *k
	doubted := k.doubts(found, s.clock.Now())
	if doubted {
		found = k.withhold(found)
	}
	err := s.accept(ctx, gvk, k, found)
	settled := s.settled(k, found)
	changed := k.differs(&before)
	s.mu.Unlock()
	if changed {
		if found.err != nil {
			klog.FromContext(ctx).V(2).Info("Kind cannot be used", "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String(), "cause", found.err.Error())
		}
		s.announce(gvk)
	}
	if doubted && err == nil {
		err = errUnconfirmed
	}
	return settled, err
}

// accept takes over what was found, and starts or stops the informer to match. s.mu
// must be held.
func (s *Set) accept(ctx context.Context, gvk schema.GroupVersionKind, k *kind, found found) error {
	if k.mapping == nil || !found.watchable || k.mapping.Resource != found.mapping.Resource {
		k.stop()
	}
	k.mapping, k.err, k.gone, k.polled = found.mapping, found.err, found.gone, found.polled
	if !found.watchable || (k.informer != nil && !k.informer.stuck()) {
		return nil
	}
	started, err := s.watch(ctx, gvk, found.mapping, k.informer)
	if err != nil {
		k.err = err
		return err
	}
	k.stop()
	k.informer = started
	return nil
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

// fail records why a kind could not be looked at, and returns false if that does not
// matter any more. What was known before stays: no answer is not an answer.
func (s *Set) fail(gvk schema.GroupVersionKind, k *kind, err error) bool {
	s.mu.Lock()
	current := s.kinds[gvk] == k
	first := current && k.err == ErrPending //nolint:errorlint // the bare one, which somebody may wait for
	if current && errors.Is(k.err, ErrPending) {
		k.err = fmt.Errorf("%w: %w", ErrPending, err)
	}
	s.mu.Unlock()
	if first {
		s.announce(gvk)
	}
	return current
}

// differs tells whether the kind looks another way than before to those who want
// it. A filling cache is announced when it is full.
func (k *kind) differs(before *kind) bool {
	if (k.err == nil) != (before.err == nil) || (k.err != nil && k.err.Error() != before.err.Error()) {
		return true
	}
	if k.gone != before.gone || (k.polled == nil) != (before.polled == nil) {
		return true
	}
	return !maps.EqualFunc(k.polled, before.polled, func(a, b reading) bool {
		return reflect.DeepEqual(a.object, b.object) && fmt.Sprint(a.err) == fmt.Sprint(b.err)
	})
}
