// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Sighting is what a process has seen of one condition of a Node. It has the time since when the
// condition has had its status, as far as the clock of the reporter can be trusted (spec 7.2).
type Sighting struct {
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
	// Transition and Heartbeat are the last times that the reporter gave.
	Transition, Heartbeat time.Time
	// Begun is since when the condition has had its status, zero if its reporter gives no time.
	Begun time.Time
	// Doubt says why Begun is not Transition, empty if it is, or nearly.
	Doubt string
}

// Reasons not to trust a reporter. The reason for a clock that is ahead has a number.
const (
	doubtAhead   = "its reporter's clock is %ds ahead"
	doubtBack    = "its reporter's clock has gone back"
	doubtMoves   = "its lastTransitionTime moves with every heartbeat"
	doubtNode    = "its lastTransitionTime is before the creation of the Node"
	doubtMachine = "its lastTransitionTime is before the creation of the Machine"
)

// usualSkew is the difference between clocks that is not reported.
const usualSkew = 5 * time.Second

// Next returns the sighting of the condition at the instant now. The earlier sighting is nil if there was
// none. complete means that the process missed no version of the Node in between.
func (s *Sighting) Next(condition *corev1.NodeCondition, complete bool, now time.Time) Sighting {
	next := Sighting{
		Type: condition.Type, Status: condition.Status,
		Transition: condition.LastTransitionTime.Time, Heartbeat: condition.LastHeartbeatTime.Time,
	}
	if next.Transition.IsZero() {
		return next
	}
	unchanged := s != nil && s.Status == next.Status && !s.Transition.IsZero()
	switch {
	case unchanged && s.Transition.Equal(next.Transition):
		next.Begun, next.Doubt = s.Begun, s.Doubt
	case unchanged && complete:
		next.Begun, next.Doubt = s.Begun, s.Doubt
		if next.Doubt == "" {
			next.doubt(doubtMoves)
		}
	case s != nil && next.Transition.Before(s.latest()):
		next.Begun = now
		next.doubt(doubtBack)
	case next.Transition.After(now):
		next.Begun = now
		next.doubt(fmt.Sprintf(doubtAhead, int64(next.Transition.Sub(now).Round(time.Second)/time.Second)))
	default:
		next.Begun = next.Transition
	}
	return next
}

// latest returns the latest time that the reporter has given, or that was used instead. No later
// status begins before it. Reporters give whole seconds.
func (s *Sighting) latest() time.Time {
	latest := s.Begun.Truncate(time.Second)
	for _, given := range [...]time.Time{s.Transition, s.Heartbeat} {
		if given.After(latest) {
			latest = given
		}
	}
	return latest
}

// doubt sets why the time of the reporter is not trusted, if that makes a difference.
func (s *Sighting) doubt(why string) {
	if s.Begun.Sub(s.Transition).Abs() > usualSkew {
		s.Doubt = why
	}
}

// Evidence is what a Node is judged by.
type Evidence struct {
	Conditions []corev1.NodeCondition
	// Created is when the Node was created. MachineCreated is when the Machine that is judged by the
	// Node was created, zero without a Machine. No condition has lasted for longer.
	Created, MachineCreated time.Time
	// Seen are the earlier sightings of the conditions, as far as they are remembered.
	Seen []Sighting
}

// EvidenceOf returns the evidence for a Node. It is empty without a Node.
func EvidenceOf(node *corev1.Node, seen []Sighting) Evidence {
	if node == nil {
		return Evidence{}
	}
	return Evidence{Conditions: node.Status.Conditions, Created: node.CreationTimestamp.Time, Seen: seen}
}

// sighting returns the sighting of a condition at the instant now.
func (e *Evidence) sighting(condition *corev1.NodeCondition, now time.Time) Sighting {
	var before *Sighting
	if i := slices.IndexFunc(e.Seen, func(s Sighting) bool { return s.Type == condition.Type }); i >= 0 {
		before = &e.Seen[i]
	}
	// The process has not recorded this one, so it may have missed versions.
	return before.Next(condition, false, now)
}

// UpToDate reports whether the sightings include the present conditions. A cache may have the latest
// version of a Node before its handler does.
func (e *Evidence) UpToDate() bool {
	return !slices.ContainsFunc(e.Conditions, func(condition corev1.NodeCondition) bool {
		return slices.ContainsFunc(e.Seen, func(s Sighting) bool {
			return s.Type == condition.Type && (s.Status != condition.Status || !s.Transition.Equal(condition.LastTransitionTime.Time))
		})
	})
}

// Since returns since when a condition of the Node has had its status at the instant now. It is zero for
// a condition without lastTransitionTime. doubt says why it is not the lastTransitionTime, empty if it
// is.
func (e *Evidence) Since(condition *corev1.NodeCondition, now time.Time) (since time.Time, doubt string) {
	seen := e.sighting(condition, now)
	if seen.Begun.IsZero() {
		return time.Time{}, ""
	}
	bound, why := e.Created, doubtNode
	if e.MachineCreated.After(bound) {
		bound, why = e.MachineCreated, doubtMachine
	}
	if bound.IsZero() {
		return seen.Begun, seen.Doubt
	}
	if bound.After(now) {
		bound = now // Our own clock is behind that of the API server.
	}
	if seen.Begun.Before(bound) {
		seen.Begun, seen.Doubt = bound, ""
		seen.doubt(why)
	}
	return seen.Begun, seen.Doubt
}
