// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"maps"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// The default delays of deletions (spec M2).
const (
	DefaultBackOffBase = 5 * time.Minute
	DefaultBackOffCap  = 20 * time.Minute
)

// BackOff slows down the deletion of Machines that fail one after the other before they have a
// Node. Otherwise an owner whose Machines never start would replace them for ever. The
// autoscaler, which measures the age of each Machine, would never notice (spec M14).
type BackOff struct {
	// Base is the first delay. Each later delay is twice as long, up to Cap.
	Base, Cap time.Duration
}

// BackOffConcerns reports whether deletions for a reason are slowed down (spec M14.1).
func BackOffConcerns(trigger string) bool {
	return trigger == v1beta1.TriggerMachineFailed || trigger == v1beta1.TriggerNodeStartupTimeout
}

// Delay returns how long a Machine has to live after this number of rounds.
func (b BackOff) Delay(rounds int32) time.Duration {
	if rounds <= 0 {
		return 0
	}
	delay := b.Base
	for range rounds - 1 {
		if delay >= b.Cap/2 {
			return b.Cap
		}
		delay *= 2
	}
	return min(delay, b.Cap)
}

// resetAfter is the time after which an owner begins anew, as a multiple of Cap.
const resetAfter = 3

// Rounds are the deletions of Machines of one owner so far. Machines that were created together
// are one round.
type Rounds struct {
	// Count is how many there were.
	Count int32
	// Last is when the last one began.
	Last time.Time
}

// belongs reports whether a Machine was created before the last round began, so that it is part of
// that round.
func (r Rounds) belongs(created time.Time) bool {
	return r.Count > 0 && created.Before(r.Last.Truncate(time.Second))
}

// Due returns when a Machine may be deleted at the earliest (spec M14.2).
func (b BackOff) Due(rounds Rounds, created time.Time) time.Time {
	count := rounds.Count
	if rounds.belongs(created) {
		count-- // It belongs to a round that other Machines of its age have begun.
	}
	due := created.Add(b.Delay(count))
	if end := b.end(rounds); count > 0 && end.Before(due) {
		return end
	}
	return due
}

// end returns when the rounds are forgotten.
func (b BackOff) end(rounds Rounds) time.Time { return rounds.Last.Add(resetAfter * b.Cap) }

// RoundsByOwner are the rounds of all owners that this process knows. All MachineHealthChecks share them. The zero
// value has none, and is ready to use from any goroutine.
type RoundsByOwner struct {
	mu      sync.Mutex
	byOwner map[types.UID]Rounds
}

// Recall adds what another process has done: the last deletion that a history shows is one round (spec M14.4).
func (r *RoundsByOwner) Recall(history []v1beta1.Remediation) {
	last := map[types.UID]time.Time{}
	for i := range history {
		entry := &history[i]
		owner := types.UID(entry.Owner)
		if BackOffConcerns(entry.Reason) && entry.Started != nil && entry.Finished == nil && owner != "" && entry.Started.After(last[owner]) {
			last[owner] = entry.Started.Time
		}
	}
	for owner, at := range last {
		r.replace(owner, Rounds{}, Rounds{Count: 1, Last: at})
	}
}

// replace sets the rounds of an owner, unless they are not as before any more.
func (r *RoundsByOwner) replace(owner types.UID, before, after Rounds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byOwner[owner] != before {
		return
	}
	if r.byOwner == nil {
		r.byOwner = map[types.UID]Rounds{}
	}
	if r.byOwner[owner] = after; after.Count == 0 {
		delete(r.byOwner, owner)
	}
}

// of returns the rounds of the owner of a Machine. They are over if the last one was long ago (spec M14.3).
func (r *RoundsByOwner) of(machine *Machine, b BackOff, now time.Time) Rounds {
	owner := machine.Owner()
	if r == nil || owner == nil {
		return Rounds{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if rounds := r.byOwner[owner.UID]; now.Before(b.end(rounds)) {
		return rounds
	}
	delete(r.byOwner, owner.UID)
	return Rounds{}
}

// Owners returns how many owners have rounds that are not over.
func (r *RoundsByOwner) Owners(b BackOff, now time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.byOwner, func(_ types.UID, rounds Rounds) bool { return !now.Before(b.end(rounds)) })
	return len(r.byOwner)
}

// healthy notes a healthy Machine: if its owner has created it since the last round, the owner begins anew (spec M14.3).
func (r *RoundsByOwner) healthy(machine *Machine, b BackOff, now time.Time) {
	if rounds := r.of(machine, b, now); rounds.Count > 0 && !rounds.belongs(machine.CreationTimestamp.Time) {
		r.replace(machine.Owner().UID, rounds, Rounds{})
	}
}

// CountRounds counts the rounds that a sync has begun at the instant now. Of Machines of one owner, one begins the
// round (spec M14.3).
func (p *Policy) CountRounds(results []TargetResult, now time.Time) {
	for _, result := range results {
		t := result.Plan.Target
		requested := result.Plan.Type == v1beta1.RemediationMachineDeletion && (result.Outcome.Begun() || result.Outcome.Result == remediation.Unknown)
		if !requested || !BackOffConcerns(t.Verdict.Trigger) || t.Rounds.belongs(t.Machine.CreationTimestamp.Time) {
			continue
		}
		next := Rounds{Count: min(t.Rounds.Count, math.MaxInt32-1) + 1, Last: now}
		p.Rounds.replace(t.Machine.Owner().UID, t.Rounds, next)
	}
}
