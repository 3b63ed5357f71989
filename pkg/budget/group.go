// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"strings"
	"time"
)

// counted is a budget with its groups that have nodes, by name.
type counted struct {
	*Budget
	phase  phase
	groups map[string]*group
	// started is when the last remediation began, by group, also for groups without nodes.
	started map[string]time.Time
	// floor is the same for all groups, from before topologyKey was changed.
	floor time.Time
	// within has the groups that have exceeded maxUnhealthy, and when each came back within it, zero for a group that
	// still exceeds it. Groups that have cooled down are not in it.
	within map[string]time.Time
	// regrouped means that a group of a version with other groups cooled down.
	regrouped bool
}

// byName finds a budget in an order by name.
func byName(b *counted, name string) int { return strings.Compare(b.Name, name) }

// at returns what the schedules of a budget say at the instant now.
func (b *counted) at(now time.Time) *phase {
	if !b.phase.covers(now) {
		b.phase = b.phaseAt(now)
	}
	return &b.phase
}

// group returns the group of that name, an empty one if it has no nodes.
func (b *counted) group(name string) *group {
	if found := b.groups[name]; found != nil {
		return found
	}
	return &group{name: name, budget: b}
}

// forgetStarted forgets beginnings in groups without nodes once minInterval is over.
func (b *counted) forgetStarted(now time.Time) {
	for name, at := range b.started {
		if b.groups[name] == nil && !now.Before(b.nextStart(at)) {
			delete(b.started, name)
		}
	}
}

// group is a group of nodes of a budget, counted.
type group struct {
	name                             string
	budget                           *counted
	observed, unhealthy, remediating int
	// reserved are when the remediations of nodes with a reservation began, by node.
	reserved map[string]time.Time
}

// groupOfBudget finds the group of a budget among those of a node, which are in order of the
// names of the budgets.
func groupOfBudget(g *group, budget string) int { return strings.Compare(g.budget.Name, budget) }

// add counts a node.
func (g *group) add(name string, node *countedNode) {
	if g.observed == 0 {
		g.budget.groups[g.name] = g
	}
	g.count(node, 1)
	g.started(node.Started)
	if node.reservation != nil {
		if g.reserved == nil {
			g.reserved = map[string]time.Time{}
		}
		g.reserved[name] = node.reservation.at
	}
}

// remove counts a node no longer.
func (g *group) remove(name string, node *countedNode) {
	g.count(node, -1)
	delete(g.reserved, name)
	if g.observed == 0 {
		delete(g.budget.groups, g.name)
	}
}

func (g *group) count(node *countedNode, by int) {
	g.observed += by
	if node.unhealthy() {
		g.unhealthy += by
	}
	if node.remediating() {
		g.remediating += by
	}
}

// started records when a remediation of the group has begun.
func (g *group) started(at time.Time) {
	if at.After(g.budget.started[g.name]) {
		g.budget.started[g.name] = at
	}
}

// lastStarted returns when the last remediation of the group began, zero if that is not known.
// The reservation of one node does not count.
func (g *group) lastStarted(except string) time.Time {
	last := latest(g.budget.floor, g.budget.started[g.name])
	for name, at := range g.reserved {
		if name != except {
			last = latest(last, at)
		}
	}
	return last
}

// latest returns the later one of two instants.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
