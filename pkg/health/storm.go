// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// StormRules are the two settings of storm recovery (spec 9.1). Without any there
// are no storms.
type StormRules struct {
	// Threshold is the number of nodes that are not healthy at or below which a storm
	// is calm.
	Threshold *int
	// Cooldown is how long a storm must be calm before it ends.
	Cooldown *time.Duration
}

// Configured reports whether there can be storms.
func (r StormRules) Configured() bool { return r.Threshold != nil || r.Cooldown != nil }

// StormInput is the input for a storm.
type StormInput struct {
	Gate Gate
	// Unhealthy is the number of nodes that are unhealthy. A storm needs one to begin.
	Unhealthy int
	// Remediated is the number of selected nodes under remediation.
	Remediated int
}

// NotHealthy returns the number of nodes that do not count as healthy (spec 9.1: U).
// Unhealthy nodes are only a part of them.
func (i StormInput) NotHealthy() int { return i.Gate.Observed - i.Gate.Healthy }

// Limit returns the largest number of nodes that may be not healthy while the gate is
// open (spec 9.1: M). It is negative if the gate is closed even with none.
func (i StormInput) Limit() int { return min(i.Gate.Observed-i.Gate.Required, i.Gate.Observed) }

// Storm is the state of storm recovery: after a mass failure no further remediation
// begins until enough nodes have been healthy for a while.
//
//	          begins                       calm
//	(zero) ──────────► Active ────────────────────────► Active, CalmSince
//	   ▲                  ▲                                │      │
//	   │                  └────────────────────────────────┘      │
//	   │                           calm is lost                   │
//	   └──────────────────────────────────────────────────────────┘
//	          calm for the cooldown, or calm without one
//
// The zero value is no storm.
type Storm struct {
	// Active means that nodes get no first CR.
	Active bool
	// Since is when the storm began, zero without one.
	Since time.Time
	// CalmSince is since when the storm has been calm without interruption. It is zero
	// while it is not calm, and without a cooldown.
	CalmSince time.Time
}

// Next returns the storm at the instant now. Its instants have whole seconds, as status
// stores them. It is idempotent: the same input at the same instant gives the same storm.
func (s Storm) Next(rules StormRules, input StormInput, now time.Time) Storm {
	if !rules.Configured() {
		return Storm{}
	}
	if !s.Active {
		if !rules.begins(input) {
			return Storm{}
		}
		s = Storm{Active: true}
	}
	if s.Since.IsZero() {
		s.Since = now.Truncate(time.Second) // A status without a start counts too.
	}
	if !rules.calm(input) {
		s.CalmSince = time.Time{}
		return s
	}
	if rules.Cooldown == nil {
		return Storm{}
	}
	// The calm began in the future, by a clock that was ahead. It begins anew.
	if s.CalmSince.IsZero() || s.CalmSince.After(now) {
		s.CalmSince = now.Truncate(time.Second)
	}
	if !now.Before(s.End(rules)) {
		return Storm{}
	}
	return s
}

// End returns when the storm ends if it stays calm, and zero if time alone does not
// end it. The present value of the cooldown counts, also for one that runs (spec 9.5).
func (s Storm) End(rules StormRules) time.Time {
	if !s.Active || s.CalmSince.IsZero() || rules.Cooldown == nil {
		return time.Time{}
	}
	return s.CalmSince.Add(*rules.Cooldown)
}

// Unwritten returns what is left of a storm whose report failed, given the one before. It goes on, as a new process
// would see it: its end is not written, and a cooldown that is not written has not begun. The request may have taken a
// minute, in which nodes have failed again (spec 9.5).
func (s Storm) Unwritten(before Storm) Storm {
	if !s.Active {
		return before
	}
	if !s.CalmSince.Equal(before.CalmSince) {
		s.CalmSince = time.Time{}
	}
	return s
}

// begins reports whether a storm begins: either rule is enough (spec 9.2 to 9.4).
func (r StormRules) begins(input StormInput) bool {
	if input.Unhealthy == 0 {
		return false
	}
	closed := !input.Gate.Open
	if r.Cooldown != nil && closed {
		return true
	}
	exhausted := input.Remediated > 0 && input.Remediated >= input.Limit()
	return r.Threshold != nil && input.NotHealthy() > *r.Threshold && (closed || exhausted)
}

// calm reports whether every rule finds the storm calm (spec 9.2 to 9.4).
func (r StormRules) calm(input StormInput) bool {
	if r.Threshold != nil && input.NotHealthy() > *r.Threshold {
		return false
	}
	return r.Cooldown == nil || input.Gate.Open
}
