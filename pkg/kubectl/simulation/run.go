// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// These bounds end every simulation: a number of instants, and a number of plans of nodes. The
// simulation makes some hundred thousand plans per second. If something changes at the same instant
// again and again, the simulation continues a second later.
const (
	maxInstants = 20_000
	maxPlans    = 5_000_000
	maxRounds   = 100
	// instantsPerChange and plansPerChange are what each recorded change adds: the instant at which it is
	// seen, and those at which something follows from it.
	instantsPerChange, plansPerChange = 10, 1000
)

// Run simulates until the duration is over, until nothing more can happen, or until it is interrupted.
func Run(in *Input) *Result {
	w := newWorld(in)
	for _, change := range in.Fail {
		w.events.add(in.Start.Add(change.After), func(now time.Time) { w.fail(change.Node, now) })
	}
	for _, change := range in.Recover {
		w.events.add(in.Start.Add(change.After), func(now time.Time) { w.recover(change.Node, "--recover", now) })
	}
	end := in.Start.Add(in.Duration)
	instants := maxInstants + instantsPerChange*len(in.Recorded)
	stopped := w.run(in.Start, end, instants)
	result := &Result{
		Start: metav1.NewTime(in.Start), Duration: metav1.Duration{Duration: in.Duration}, Budgets: w.counts.Budgets(), Checks: []string{},
		Timeline: w.journal.lines, Notes: w.notes(in),
	}
	for _, c := range w.checks {
		result.Checks = append(result.Checks, c.nhc.Name)
	}
	for _, node := range w.nodes {
		if len(selectedBy(w.checks, node)) > 0 {
			result.Nodes++
		}
	}
	if stopped.Before(end) {
		result.Duration.Duration = stopped.Sub(in.Start)
		result.Notes = append(result.Notes, fmt.Sprintf("So much happens that the simulation was stopped after %s.", result.Duration.Duration))
	}
	result.Summary = w.summary(stopped)
	return result
}

// run simulates from one instant to another, and returns the instant that it has reached.
func (w *world) run(now, end time.Time, instants int) time.Time {
	for ; instants > 0 && w.planned < w.mostPlans && (w.interrupted == nil || !w.interrupted()); instants-- {
		w.events.happen(now)
		w.settle(now)
		if w.play(now) { // After what is due: the times of changes have lost their fractions of a second.
			w.settle(now)
		}
		w.journal.flush()
		next := w.next(now)
		if next.IsZero() || next.After(end) {
			return end
		}
		now = next
	}
	return now
}

// settle syncs all checks until none of them has anything to do.
func (w *world) settle(now time.Time) {
	w.counts.Expire(now)
	for range maxRounds {
		acted := false
		for _, c := range w.checks {
			acted = c.sync(now) || acted
		}
		w.journal.mostAtATime = max(w.journal.mostAtATime, len(w.crs))
		if !acted {
			return
		}
	}
}

// next returns the next instant at which anything may happen, zero if nothing ever will.
func (w *world) next(now time.Time) time.Time {
	next := w.counts.NextChange(now)
	if len(w.events) > 0 {
		next = health.Earliest(next, w.events[0].at)
	}
	if len(w.recorded) > 0 {
		next = health.Earliest(next, w.recorded[0].At)
	}
	for _, c := range w.checks {
		next = health.Earliest(next, c.recheck)
	}
	if !next.IsZero() && !next.After(now) {
		return now.Add(time.Second)
	}
	return next
}

// notes name the parts of the input that the simulation cannot use.
func (w *world) notes(in *Input) (notes []string) {
	for _, change := range in.Fail {
		if node := w.nodes[change.Node]; node != nil && len(selectedBy(w.checks, node)) == 0 {
			notes = append(notes, fmt.Sprintf("No NodeHealthCheck selects node %s.", change.Node))
		}
	}
	unknown := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	for _, c := range w.checks {
		if len(in.Fail) > 0 && !health.Matches(c.nhc.Spec.UnhealthyConditions, unknown) {
			notes = append(notes, fmt.Sprintf("NodeHealthCheck %s does not look at Ready=Unknown, which is how nodes fail here.", c.nhc.Name))
		}
	}
	for _, budget := range in.Budgets {
		if budget.Spec.MachineSelector != nil {
			notes = append(notes, fmt.Sprintf("RemediationBudget %s counts Machines, which are not simulated: it limits nothing here.", budget.Name))
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// event is something that happens by itself.
type event struct {
	at time.Time
	do func(now time.Time)
}

// events are the future events, in order of time. Events of one instant are in the order in which
// they were added.
type events []event

func (e *events) add(at time.Time, do func(now time.Time)) {
	i, _ := slices.BinarySearchFunc(*e, at, func(known event, at time.Time) int {
		if known.at.After(at) {
			return 1
		}
		return -1
	})
	*e = slices.Insert(*e, i, event{at: at, do: do})
}

// happen runs all due events.
func (e *events) happen(now time.Time) {
	for len(*e) > 0 && !(*e)[0].at.After(now) {
		due := (*e)[0]
		*e = (*e)[1:]
		due.do(now)
	}
}
