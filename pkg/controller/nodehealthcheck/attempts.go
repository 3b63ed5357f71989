// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// attemptKey tells attempts of different kinds apart. A failure for an unhealthy node says
// nothing about the writes that are due once it is healthy, and a failure about its CRs says
// nothing once there are more or fewer of them (spec P12, 21.3).
type attemptKey struct {
	node    string
	state   health.State
	deleted bool
	// crs is the number of own CRs, except those whose remediator replaces the Node: these
	// are left alone until it has.
	crs int
}

func attemptOf(node *remediation.Node) attemptKey {
	key := attemptKey{node: node.Name, state: node.Verdict.State, deleted: node.Constraints.NodeDeleted}
	for _, cr := range node.Own {
		if !cr.AwaitsReplacement() {
			key.crs++
		}
	}
	return key
}

// nextAttempt returns the earliest attempt that is due after the sync, and forgets those of other nodes.
func (r *syncResult) nextAttempt() time.Time {
	if r.state.attempts.None() {
		return time.Time{}
	}
	planned := sets.New[attemptKey]()
	for _, result := range r.results {
		planned.Insert(attemptOf(result.Plan.Node))
	}
	return r.state.attempts.Recheck(planned, r.now)
}
