// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"sync"
	"time"
)

// Reservation reserves the slot for a beginning remediation until the outcome of its creation is known. From then on,
// the CRs show which member has the slot. All syncs share the Reservation. The zero value is ready to use, from any
// goroutine.
type Reservation struct {
	mu sync.Mutex
	// member is the node or Machine whose remediation is beginning. attempts is how many
	// health checks try: the lease of the node decides between them.
	member   Member
	attempts int
	// until is how long the slot stays reserved after an attempt of unknown outcome.
	until time.Time
}

// unknownReservation is how long the slot is kept for a CR that may have been created. By
// then, a live list shows it if it was.
const unknownReservation = time.Minute

// TryAcquire reserves the slot for a node or a Machine, unless it is reserved for another one.
func (r *Reservation) TryAcquire(member Member, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.member != member && (r.attempts > 0 || now.Before(r.until)) {
		return false
	}
	if r.member != member {
		r.member, r.until = member, time.Time{}
	}
	r.attempts++
	return true
}

// Release gives a reservation back, unless the outcome is unknown.
func (r *Reservation) Release(unknown bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts--
	if unknown {
		r.until = now.Add(unknownReservation)
	}
}
