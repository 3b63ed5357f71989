// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// retries remembers when a node, for which a write has failed, is tried again. Its
// methods may be called from any goroutine.
type retries struct {
	limiter workqueue.TypedRateLimiter[retryKey]

	mu  sync.Mutex
	due map[string]map[retryKey]time.Time
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
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[retryKey](retryBase, retryMax),
		due:     map[string]map[retryKey]time.Time{},
	}
}

func keyOf(nhc string, node *remediation.Node) retryKey {
	return retryKey{nhc: nhc, node: node.Name, state: node.Verdict.State, deleted: node.Circumstances.NodeDeleted}
}

// failed schedules the next attempt.
func (r *retries) failed(nhc string, node *remediation.Node, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due[nhc] == nil {
		r.due[nhc] = map[retryKey]time.Time{}
	}
	key := keyOf(nhc, node)
	r.due[nhc][key] = now.Add(r.limiter.When(key))
}

// at returns when the next attempt is due, and zero if none has failed.
func (r *retries) at(nhc string, node *remediation.Node) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.due[nhc][keyOf(nhc, node)]
}

// succeeded forgets the failures of nodes whose attempt has come. Those that wait
// for theirs keep them.
func (r *retries) succeeded(nhc string, plan *remediation.NodePlan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := keyOf(nhc, &plan.Node)
	if _, failed := r.due[nhc][key]; failed && len(plan.Actions) > 0 {
		delete(r.due[nhc], key)
		r.limiter.Forget(key)
	}
}

// next returns the earliest attempt that is due after now, and forgets those of
// nodes that are no longer in the plans. An attempt that was due and is not made,
// because something else forbids it, is not waited for.
func (r *retries) next(nhc string, plans []remediation.NodePlan, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.due[nhc]) == 0 {
		return time.Time{}
	}
	planned := sets.New[retryKey]()
	for i := range plans {
		planned.Insert(keyOf(nhc, &plans[i].Node))
	}
	var next time.Time
	for key, due := range r.due[nhc] {
		if !planned.Has(key) {
			delete(r.due[nhc], key)
			r.limiter.Forget(key)
			continue
		}
		if due.After(now) {
			next = health.Earliest(next, due)
		}
	}
	return next
}

// forget drops all failures of a NodeHealthCheck.
func (r *retries) forget(nhc string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.due[nhc] {
		r.limiter.Forget(key)
	}
	delete(r.due, nhc)
}
