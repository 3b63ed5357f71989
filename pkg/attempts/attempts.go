// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attempts spaces out the attempts of writes that have failed.
package attempts

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// The backoff of all failed writes for one key. The planner says how long a refusal lasts.
const (
	retryBase = 100 * time.Millisecond
	retryMax  = time.Minute
)

// Attempt is the next one after a failure. The zero value means that none has failed.
type Attempt struct {
	Due time.Time
	// Failure says what has failed, empty after a live read that contradicts the cache. Reason is that of the decision.
	Failure string
	Reason  v1alpha1.DecisionReason
}

// Attempts schedule the repetition of failed writes. The key tells attempts of different kinds
// apart. It is not for concurrent use.
type Attempts[K comparable] struct {
	limiter workqueue.TypedRateLimiter[K]
	next    map[K]Attempt
}

// New returns attempts without a failure.
func New[K comparable]() Attempts[K] {
	return Attempts[K]{limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[K](retryBase, retryMax), next: map[K]Attempt{}}
}

// Of returns the next attempt for a key.
func (a *Attempts[K]) Of(key K) Attempt { return a.next[key] }

// Failed schedules the next attempt for a key: something has failed, or the cache is out of date.
func (a *Attempts[K]) Failed(key K, outcome *remediation.Outcome, now time.Time) {
	next := Attempt{Due: now.Add(a.limiter.When(key)), Reason: outcome.Reason}
	if outcome.Err != nil {
		next.Failure = outcome.Err.Error()
	}
	a.next[key] = next
}

// Succeeded forgets the failures of a key.
func (a *Attempts[K]) Succeeded(key K) {
	delete(a.next, key)
	a.limiter.Forget(key)
}

// Recheck returns the earliest attempt that is due after now, and forgets all other keys. It
// ignores an attempt that was due and that something else forbids.
func (a *Attempts[K]) Recheck(planned sets.Set[K], now time.Time) time.Time {
	var next time.Time
	for key, attempt := range a.next {
		switch {
		case !planned.Has(key):
			a.Succeeded(key)
		case attempt.Due.After(now):
			next = health.Earliest(next, attempt.Due)
		}
	}
	return next
}

// None reports whether none has failed, so that Recheck has nothing to do.
func (a *Attempts[K]) None() bool { return len(a.next) == 0 }
