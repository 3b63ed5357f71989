// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"maps"
	"sync"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/limits"
)

// slotRefusals remembers who was refused the control plane slot by live reads: until something that
// may free it has changed, they are not repeated more often than once a minute (spec 12.4). Its zero
// value is ready to use, by any goroutine.
type slotRefusals struct {
	mu sync.Mutex
	// changes counts what may have freed the slot.
	changes int
	refused map[limits.Member]slotRefusal
}

type slotRefusal struct {
	reason  v1alpha1.DecisionReason
	changes int
	until   time.Time
}

// slotRefusalLasts is less than the minute of 12.4, which counts from the beginning of a sync.
const slotRefusalLasts = 50 * time.Second

// changed records that the slot may be free.
func (r *slotRefusals) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
}

// get returns why a member was refused, empty if it has to be asked. A refusal that follows is
// remembered with the count of changes.
func (r *slotRefusals) get(member limits.Member, now time.Time) (reason v1alpha1.DecisionReason, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.refused, func(_ limits.Member, refusal slotRefusal) bool {
		return refusal.changes != r.changes || !now.Before(refusal.until)
	})
	return r.refused[member].reason, r.changes
}

// remember records that a member was refused. Changes is what get returned before the live reads.
func (r *slotRefusals) remember(member limits.Member, reason v1alpha1.DecisionReason, changes int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		r.refused = map[limits.Member]slotRefusal{}
	}
	r.refused[member] = slotRefusal{reason, changes, now.Add(slotRefusalLasts)}
}
