// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// retries remembers when a node, for which a write has failed, is tried again. Its
// methods may be called from any goroutine.
type retries struct {
	limiter workqueue.TypedRateLimiter[retryKey]

	mu       sync.Mutex
	attempts map[string]map[retryKey]attempt
}

// attempt is the next one after a failure.
type attempt struct {
	due time.Time
	// failure says what has failed, and failed as what it counts.
	failure string
	failed  v1alpha1.DecisionReason
}

// retryKey tells attempts of different nature apart: what failed for an unhealthy
// node says nothing about what is due now that it is healthy.
type retryKey struct {
	nhc, node string
	state     health.State
	deleted   bool
}

func newRetries() *retries {
	return &retries{
		limiter:  workqueue.NewTypedItemExponentialFailureRateLimiter[retryKey](retryBase, retryMax),
		attempts: map[string]map[retryKey]attempt{},
	}
}

func keyOf(nhc string, node *remediation.Node) retryKey {
	return retryKey{nhc: nhc, node: node.Name, state: node.Verdict.State, deleted: node.Circumstances.NodeDeleted}
}

// failed schedules the next attempt.
func (r *retries) failed(nhc string, node *remediation.Node, outcome *remediation.Outcome, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts[nhc] == nil {
		r.attempts[nhc] = map[retryKey]attempt{}
	}
	key := keyOf(nhc, node)
	r.attempts[nhc][key] = attempt{due: now.Add(r.limiter.When(key)), failure: outcome.Err.Error(), failed: outcome.Failed}
}

// of returns the next attempt, and the zero value if none has failed.
func (r *retries) of(nhc string, node *remediation.Node) attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[nhc][keyOf(nhc, node)]
}

// succeeded forgets the failures of nodes whose attempt has come. Those that wait
// for theirs keep them.
func (r *retries) succeeded(nhc string, plan *remediation.NodePlan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := keyOf(nhc, &plan.Node)
	if _, failed := r.attempts[nhc][key]; failed && len(plan.Actions) > 0 {
		delete(r.attempts[nhc], key)
		r.limiter.Forget(key)
	}
}

// next returns the earliest attempt that is due after now, and forgets those of
// nodes that are no longer in the plans. An attempt that was due and is not made,
// because something else forbids it, is not waited for.
func (r *retries) next(nhc string, plans []remediation.NodePlan, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.attempts[nhc]) == 0 {
		return time.Time{}
	}
	planned := sets.New[retryKey]()
	for i := range plans {
		planned.Insert(keyOf(nhc, &plans[i].Node))
	}
	var next time.Time
	for key, attempt := range r.attempts[nhc] {
		if !planned.Has(key) {
			delete(r.attempts[nhc], key)
			r.limiter.Forget(key)
			continue
		}
		if attempt.due.After(now) {
			next = health.Earliest(next, attempt.due)
		}
	}
	return next
}

// forget drops all failures of a NodeHealthCheck.
func (r *retries) forget(nhc string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.attempts[nhc] {
		r.limiter.Forget(key)
	}
	delete(r.attempts, nhc)
}
