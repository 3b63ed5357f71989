// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"sync"
	"time"
)

// controlPlaneSlot is the right to begin the remediation of a control plane node, of which at
// most one in the whole cluster is under remediation (spec 12.2). It is reserved only until the
// outcome of a creation is known: from then on, the CRs show who has it. All syncs share it.
type controlPlaneSlot struct {
	mu sync.Mutex
	// node is the one whose remediation is beginning, and attempts how many NodeHealthChecks
	// try: the lease of the node decides between them.
	node     string
	attempts int
	// until is how long the slot stays reserved after an attempt of unknown outcome.
	until time.Time
}

// unknownReservation is how long the slot is kept for a CR that may have been created. By
// then, a live list shows it if it was.
const unknownReservation = time.Minute

// tryAcquire reserves the slot for a node, unless it is reserved for another one.
func (s *controlPlaneSlot) tryAcquire(node string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node != node && (s.attempts > 0 || now.Before(s.until)) {
		return false
	}
	if s.node != node {
		s.node, s.until = node, time.Time{}
	}
	s.attempts++
	return true
}

// release gives a reservation back, but for an outcome that is unknown.
func (s *controlPlaneSlot) release(unknown bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts--
	if unknown {
		s.until = now.Add(unknownReservation)
	}
}
