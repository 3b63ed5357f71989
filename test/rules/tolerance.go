// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"time"
)

// Tolerance is what the controller could not have seen.
type Tolerance struct {
	// Cache is how far its caches may have been behind when a sync began.
	Cache time.Duration
	// LiveRead is how long before a creation the Node may have been read where the audit log
	// does not say when that was.
	LiveRead time.Duration
	// Sync is how long before a request the sync may have begun where nothing says when
	// that was.
	Sync time.Duration
}

// Quiet is the tolerance without any fault. On an idle machine, caches are behind by
// milliseconds and a sync takes tens of them. The tests share their cores with an API
// server and a controller under the race detector, which may get no turn for a second.
var Quiet = Tolerance{Cache: 2 * time.Second, LiveRead: time.Second, Sync: 5 * time.Second}

// FaultWindow is a time in which the controller sees less.
type FaultWindow struct {
	what string
	// process is the beginning of the user agent of those that it affects.
	process  string
	from, to time.Time // A zero to means that it goes on.
	extra    Tolerance
}

// faultWindows are those so far.
type faultWindows []*FaultWindow

// at returns the tolerance for a request at an instant. What a fault has delayed may
// have effects until its own delays are over.
func (f faultWindows) at(quiet Tolerance, by *Request) Tolerance {
	tolerance, now := quiet, by.Time
	for _, d := range f {
		if !strings.HasPrefix(by.UserAgent, d.process) || now.Before(d.from) || (!d.to.IsZero() && now.After(d.to.Add(d.extra.Cache+d.extra.Sync+quiet.Sync))) {
			continue
		}
		tolerance.Cache = max(tolerance.Cache, quiet.Cache+d.extra.Cache)
		tolerance.LiveRead = max(tolerance.LiveRead, quiet.LiveRead+d.extra.LiveRead)
		tolerance.Sync = max(tolerance.Sync, quiet.Sync+d.extra.Sync)
	}
	return tolerance
}

// BeginFault adds to the tolerance from an instant on, until EndFault. What is the reason
// is told in the timelines.
func (j *Judge) BeginFault(now time.Time, what string, extra Tolerance) *FaultWindow {
	j.Fault(now, "fault begins: %s", what)
	window := &FaultWindow{what: what, from: now, extra: extra}
	j.faults = append(j.faults, window)
	return window
}

// BeginFaultOf is BeginFault for the requests of a process alone, whose user agent begins
// so.
func (j *Judge) BeginFaultOf(now time.Time, process, what string, extra Tolerance) *FaultWindow {
	window := j.BeginFault(now, what, extra)
	window.process = process
	return window
}

// EndFault ends what BeginFault has begun.
func (j *Judge) EndFault(now time.Time, window *FaultWindow) {
	j.Remark(now, "fault ends: %s", window.what)
	window.to = now
}
