// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"encoding/json"
	"maps"
	"slices"
)

// Figures tell how much a referee has seen: a test that has seen little proves little.
type Figures struct {
	// Events is the number of changes that were judged, and Gaps how many of these came
	// after others that may have been missed.
	Events, Gaps int
	// Creations, Deletions and Marks are what the controller did to CRs.
	Creations, Deletions, Marks int
	// Unaudited is the number of creations of which the audit log does not tell.
	Unaudited int
	// Replays is how often all was judged again because of a change that came late.
	Replays int
	// Faults is the number of disturbances.
	Faults int
	// Checks is how often each rule was checked.
	Checks map[string]int
	// Violations is the number of broken rules.
	Violations int
}

// Total returns the number of checks of all rules.
func (f Figures) Total() int {
	total := 0
	for _, n := range f.Checks {
		total += n
	}
	return total
}

// JSON returns the figures on one line.
func (f Figures) JSON() string {
	text, err := json.Marshal(f)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Figures returns what was judged so far.
func (r *Referee) Figures() Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	figures := r.figures
	figures.Checks = maps.Clone(r.figures.Checks)
	figures.Violations = len(r.violations) + len(r.complaints)
	return figures
}

// Violations returns what was broken so far.
func (r *Referee) Violations() []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.violations, r.complaints)
}

// Fault counts a fault and reports it in the timelines.
func (r *Referee) Fault(format string, args ...any) {
	r.Remark(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.figures.Faults++
}
