// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"maps"
	"sync"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Refusals remember which members were refused the control plane slot by live reads. Until a change may
// have freed the slot, these reads are repeated at most once a minute (spec 12.4). The zero value is
// ready to use, by any goroutine.
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

// Get returns why a member was refused, empty if live reads have to decide. The count of changes
// is for Remember.
func (r *Refusals) Get(member Member, now time.Time) (reason v1alpha1.DecisionReason, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.refused, func(_ Member, refusal refusal) bool {
		return refusal.changes != r.changes || !now.Before(refusal.until)
	})
	return r.refused[member].reason, r.changes
}

// Remember records that a member was refused. changes is the count that Get returned before the live
// reads.
func (r *Refusals) Remember(member Member, reason v1alpha1.DecisionReason, changes int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		r.refused = map[Member]refusal{}
	}
	r.refused[member] = refusal{reason, changes, now.Add(refusalLasts)}
}
