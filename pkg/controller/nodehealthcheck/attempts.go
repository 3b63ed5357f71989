// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/attempts"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// nodeAttempts are when nodes, for which a write has failed, are tried again.
type nodeAttempts struct {
	attempts.Attempts[attemptKey]
}

func newAttempts() nodeAttempts { return nodeAttempts{attempts.New[attemptKey]()} }

// attemptKey tells attempts of different nature apart: what failed for an unhealthy
// node says nothing about what is due now that it is healthy, and what failed about its
// CRs nothing about what is due now that there are more or fewer of them (spec P12, 21.3).
type attemptKey struct {
	node    string
	state   health.State
	deleted bool
	// crs is the number of own CRs, except those whose remediator replaces the Node: these
	// are left alone until it has.
	crs int
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
func (a *nodeAttempts) of(node *remediation.Node) attempts.Attempt { return a.Of(keyOf(node)) }

// failed schedules the next attempt for a node.
func (a *nodeAttempts) failed(node *remediation.Node, outcome *remediation.Outcome, now time.Time) {
	a.Failed(keyOf(node), outcome, now)
}

// succeeded forgets the failures of a node.
func (a *nodeAttempts) succeeded(node *remediation.Node) { a.Succeeded(keyOf(node)) }

// recheck returns the earliest attempt that is due after now, and forgets those of other nodes.
func (a *nodeAttempts) recheck(results []remediation.NodeResult, now time.Time) time.Time {
	if a.None() {
		return time.Time{}
	}
	planned := sets.New[attemptKey]()
	for _, result := range results {
		planned.Insert(keyOf(result.Plan.Node))
	}
	return a.Recheck(planned, now)
}
