// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"time"
)

// The bounds of spec 21.3.
const (
	// bound is that of most transitions.
	bound = 2 * time.Second
	// longBound is the bound for states without an event: the end of a lease that expires.
	longBound = time.Minute + bound
	// budgetBound is that of what a budget has kept waiting: it is woken within 2 s (spec B4.2).
	budgetBound = 2 * bound
)

// Deadlines finds late reactions. It follows the changes that its judge has judged, and
// looks at any instant of the past as if it were the present. So it also finds reactions
// that were late and came after all. A check after everything has settled would miss these.
type Deadlines struct {
	judge *Judge
	// The number of changes that Missed has checked.
	asked int
	// settled is when nothing was unsettled, the last time that it was asked.
	settled time.Time
}

// instant is a time, and the resource version that was the last one then.
type instant struct {
	at time.Time
	rv uint64
}

// rvAt returns the last resource version of an instant.
func (j *Judge) rvAt(at time.Time) uint64 {
	for _, change := range slices.Backward(j.changes) {
		if !change.at.After(at) {
			return change.rv
		}
	}
	return 0
}

// NewDeadlines returns the deadlines of what a judge judges.
func NewDeadlines(judge *Judge) *Deadlines { return &Deadlines{judge: judge} }

// Overdue returns the unsettled states that have lasted, without interruption, for as long as the
// specification allows (spec 21.3). Time before the instant quiet does not count: until then a
// fault excuses delays.
func (d *Deadlines) Overdue(now, quiet time.Time) []Violation {
	begin := now.Add(-bound)
	if begin.Before(quiet) {
		return nil
	}
	d.judge.figures.Checks["21.3"]++
	if begin.Before(d.settled) { // Whatever is unsettled now has not been so for long.
		return nil
	}
	unsettled := d.unsettledAt(now)
	if len(unsettled) == 0 {
		d.settled = now
	}
	late := d.sinceAll(unsettled, begin, now)
	late = slices.DeleteFunc(late, func(v Violation) bool {
		if (v.Rule == "13.8" || v.Rule == "13.3") && d.wasDenied(v.Node, now) {
			return true // The annotation is tried again in its own time (spec 13.5).
		}
		if d.statusDenied(v, begin.Add(-longBound), now) {
			return true // Status says something old, and is tried again in its own time.
		}
		allowed := longBound
		if !d.mayTakeLonger(v, now) {
			if allowed = budgetBound; !d.waitsForBudget(v, now) {
				return false
			}
		}
		begin := now.Add(-allowed)
		return begin.Before(quiet) || len(d.sinceAll([]Violation{v}, begin, now)) == 0
	})
	for i := range late {
		late[i].Timeline = d.judge.timelines.of(late[i].Node, late[i].NHC)
		late[i].Text = "late: " + late[i].Text
	}
	return late
}

// Missed returns the states that were overdue right before a change since the last call. The
// change may have ended them.
func (d *Deadlines) Missed(quiet time.Time) []Violation {
	for ; d.asked < len(d.judge.changes); d.asked++ {
		before := d.judge.changes[d.asked].at.Add(-1)
		if d.asked > 0 && d.judge.changes[d.asked-1].at.After(before) {
			continue // At the same instant.
		}
		if late := d.Overdue(before, quiet); len(late) > 0 {
			return late
		}
	}
	return nil
}

// wasDenied reports whether the API server has refused a patch of a CR for the node since the last attempt.
func (d *Deadlines) wasDenied(node string, now time.Time) bool {
	for key := range d.judge.crsOf[node] {
		if d.judge.requests.deniedSince(key, now.Add(-longBound), now) {
			return true
		}
	}
	return false
}

// statusDenied reports whether a write of the status of the violation's NodeHealthCheck was refused between two
// instants, or of any NodeHealthCheck that tells what waits for a budget.
func (d *Deadlines) statusDenied(v Violation, since, until time.Time) bool {
	for nhc, writes := range d.judge.requests.statuses {
		if (nhc == v.NHC || strings.HasPrefix(v.NHC, budgetName(""))) && slices.ContainsFunc(writes, func(r *Request) bool {
			return r.denied() && !r.Time.Before(since) && !r.Time.After(until)
		}) {
			return true
		}
	}
	return false
}

// sinceAll returns those that were unsettled at every instant since begin.
func (d *Deadlines) sinceAll(left []Violation, begin, now time.Time) []Violation {
	for i := len(d.judge.changes) - 1; i >= 0 && len(left) > 0; i-- {
		change := d.judge.changes[i]
		if !change.at.After(begin) {
			break
		}
		if last := i == len(d.judge.changes)-1 || d.judge.changes[i+1].at.After(change.at); last && change.at.Before(now) {
			left = common(left, d.unsettledAt(change.at))
		}
	}
	if len(left) > 0 {
		left = common(left, d.unsettledAt(begin))
	}
	return left
}

// common returns those of the violations that are in another list, too.
func common(violations, others []Violation) []Violation {
	return slices.DeleteFunc(violations, func(v Violation) bool {
		return !slices.ContainsFunc(others, func(other Violation) bool {
			return other.Rule == v.Rule && other.Node == v.Node && other.NHC == v.NHC && other.state == v.state
		})
	})
}

// unsettledAt returns what had to change at an instant.
func (d *Deadlines) unsettledAt(at time.Time) []Violation { return d.snapshotAt(at).unsettled() }

func (d *Deadlines) snapshotAt(at time.Time) *snapshot {
	return &snapshot{history: d.judge.history, rv: d.judge.rvAt(at), now: at, checks: d.judge.figures.Checks}
}

// mayTakeLonger reports whether something that ended without an event may have been in the
// way until now: a lease of another holder that has expired (spec 14.3).
func (d *Deadlines) mayTakeLonger(v Violation, now time.Time) bool {
	node := v.Node
	if machine := d.judge.lastMachine(strings.TrimPrefix(node, machineName("")), d.judge.last); machine != nil {
		node = machine.Node
	}
	for key := range d.judge.leasesOf[node] {
		for _, version := range d.judge.leases[key] {
			lease := version.object
			if holder := holderOf(lease); lease == nil || holder == holderPrefix+v.NHC || holder == checkHolderPrefix+strings.TrimPrefix(v.NHC, mhcName("")) || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
				continue
			}
			end := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
			if end.Before(now) && end.After(now.Add(-longBound-bound)) {
				return true
			}
		}
	}
	return false
}

// Timeline returns the changes of a node and a NodeHealthCheck.
func (j *Judge) Timeline(node, nhc string) string { return j.timelines.of(node, nhc) }

// rounding is by how much a time in status may be before what it is the time of: times
// are stored in whole seconds.
const rounding = time.Second
