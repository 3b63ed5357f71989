// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// The backoff of all failed writes for one node, creations included. How long a node waits that
// was refused is another matter: the planner says so.
const (
	attemptRetryBase = 100 * time.Millisecond
	attemptRetryMax  = time.Minute
)

// attempts are when nodes, for which a write has failed, are tried again.
type attempts struct {
	limiter workqueue.TypedRateLimiter[attemptKey]
	next    map[attemptKey]attempt
}

// attempt is the next one after a failure.
type attempt struct {
	due time.Time
	// failure says what has failed, and reason is that of the decision.
	failure string
	reason  v1alpha1.DecisionReason
}

// attemptKey tells attempts of different nature apart: what failed for an unhealthy
// node says nothing about what is due now that it is healthy, and what failed about its
// CRs nothing about what is due now that there are more or fewer of them (spec P12, 21.3).
type attemptKey struct {
	node    string
	state   health.State
	deleted bool
	// crs is the number of own CRs, but for those whose remediator replaces the Node: these
	// are left alone until it has.
	crs int
}

func newAttempts() attempts {
	return attempts{
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[attemptKey](attemptRetryBase, attemptRetryMax),
		next:    map[attemptKey]attempt{},
	}
}

func keyOf(node *remediation.Node) attemptKey {
	key := attemptKey{node: node.Name, state: node.Verdict.State, deleted: node.Constraints.NodeDeleted}
	for _, cr := range node.Own {
		if !cr.AwaitsReplacement() {
			key.crs++
		}
	}
	return key
}

// of returns the next attempt for a node, and the zero value if none has failed.
func (a *attempts) of(node *remediation.Node) attempt { return a.next[keyOf(node)] }

// failed schedules the next attempt for a node.
func (a *attempts) failed(node *remediation.Node, outcome *remediation.Outcome, now time.Time) {
	key := keyOf(node)
	a.next[key] = attempt{due: now.Add(a.limiter.When(key)), failure: outcome.Err.Error(), reason: outcome.Reason}
}

// succeeded forgets the failures of a node.
func (a *attempts) succeeded(node *remediation.Node) { a.forget(keyOf(node)) }

func (a *attempts) forget(key attemptKey) {
	delete(a.next, key)
	a.limiter.Forget(key)
}

// recheck returns the earliest attempt that is due after now, and forgets those of other
// nodes. An attempt that was due and is not made, because something else forbids it, is not
// waited for.
func (a *attempts) recheck(results []remediation.NodeResult, now time.Time) time.Time {
	if len(a.next) == 0 {
		return time.Time{}
	}
	planned := sets.New[attemptKey]()
	for _, result := range results {
		planned.Insert(keyOf(result.Plan.Node))
	}
	var next time.Time
	for key, attempt := range a.next {
		switch {
		case !planned.Has(key):
			a.forget(key)
		case attempt.due.After(now):
			next = health.Earliest(next, attempt.due)
		}
	}
	return next
}
