// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"maps"
	"sync"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Refusals remember who was refused the control plane slot by live reads: until something that
// may free it has changed, they are not repeated more often than once a minute (spec 12.4). Its zero
// value is ready to use, by any goroutine.
type Refusals struct {
	mu sync.Mutex
	// changes counts the changes that may have freed the slot.
	changes int
	refused map[Member]refusal
}

type refusal struct {
	reason  v1alpha1.DecisionReason
	changes int
	until   time.Time
}

// refusalLasts is less than the minute of 12.4, which counts from the beginning of a sync.
const refusalLasts = 50 * time.Second

// Changed records that the slot may be free.
func (r *Refusals) Changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
}

// Get returns why a member was refused, empty if it has to be asked. A refusal that follows is
// remembered with the count of changes.
func (r *Refusals) Get(member Member, now time.Time) (reason v1alpha1.DecisionReason, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.refused, func(_ Member, refusal refusal) bool {
		return refusal.changes != r.changes || !now.Before(refusal.until)
	})
	return r.refused[member].reason, r.changes
}

// Remember records that a member was refused. Changes is what Get returned before the live reads.
func (r *Refusals) Remember(member Member, reason v1alpha1.DecisionReason, changes int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		r.refused = map[Member]refusal{}
	}
	r.refused[member] = refusal{reason, changes, now.Add(refusalLasts)}
}
