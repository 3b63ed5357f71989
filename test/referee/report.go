// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// Violations returns the rules broken so far.
func (r *Referee) Violations() []rules.Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.judge.Violations(), r.notSettled)
}

// Figures returns the numbers of judgements so far.
func (r *Referee) Figures() rules.Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	figures := r.judge.Figures()
	figures.Violations += len(r.notSettled)
	return figures
}

// BeginFault adds to the tolerance from now on, until the returned function is called.
// What is the reason is told in the timelines.
func (r *Referee) BeginFault(what string, extra rules.Tolerance) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ending(r.judge.BeginFault(time.Now(), what, extra))
}

// BeginFaultOf is BeginFault for the requests of one process.
func (r *Referee) BeginFaultOf(process, what string, extra rules.Tolerance) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ending(r.judge.BeginFaultOf(time.Now(), process, what, extra))
}

// ending returns what ends a fault.
func (r *Referee) ending(window *rules.FaultWindow) (end func()) {
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.judge.EndFault(time.Now(), window)
	}
}

// Fault counts a fault and reports it in the timelines.
func (r *Referee) Fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge.Fault(time.Now(), format, args...)
}

// Remark adds something to all timelines.
func (r *Referee) Remark(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge.Remark(time.Now(), format, args...)
}

// Started tells that a process of the controller starts.
func (r *Referee) Started() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge.Started(time.Now())
}

// Led tells that a process of the controller begins to lead.
func (r *Referee) Led() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge.Led(time.Now())
}
