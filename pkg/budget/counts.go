// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Node is what budgets have to know of a node (spec B3).
type Node struct {
	// Exists reports whether there is a Node object. One that is gone keeps the labels that it
	// had last, as long as it is under remediation. If these are not known, it has none.
	Exists bool
	Labels map[string]string
	// NotReady reports whether condition Ready is not True.
	NotReady bool
	// Observation is what the health checks know of the node.
	Observation
}

// Observation is what health checks know of a node.
type Observation struct {
	// Unhealthy reports whether one that selects the node judges it not to be healthy.
	Unhealthy bool
	// Remediating reports whether one has the node under remediation, and Started since when,
	// zero if that is not known.
	Remediating bool
	Started     time.Time
}

// Merge adds what another kind of health checks knows.
func (o *Observation) Merge(other Observation) {
	o.Unhealthy = o.Unhealthy || other.Unhealthy
	o.Remediating = o.Remediating || other.Remediating
	if other.Started.After(o.Started) {
		o.Started = other.Started
	}
}

// Counts counts nodes for budgets, and knows who waits for them. It may be used from one
// goroutine at a time.
type Counts struct {
	budgets map[string]*counted
	nodes   map[string]*countedNode
	// reserved are the names of the nodes that have a reservation.
	reserved sets.Set[string]
	waiting  map[Claimant][]*waiter
}

// counted is a budget with its groups, by name.
type counted struct {
	bound
	groups map[string]*group
	// started are when remediations began last, by group. Groups come and go with their nodes.
	started map[string]time.Time
	// floor is the same for all groups, from before topologyKey was changed.
	floor time.Time
}

// group is a group of nodes of a budget.
type group struct {
	name                             string
	budget                           *counted
	observed, unhealthy, remediating int
	// reserved are when remediations began whose nodes do not show it yet, by node.
	reserved map[string]time.Time
}

// countedNode is a node with the groups in which it counts.
type countedNode struct {
	Node
	groups []*group
	// reservation is that of a remediation that has begun, or is about to, nil if there is none.
	reservation *reservation
}

// reservation holds the place of a node in its budgets until the caches show that it is under
// remediation (spec B3.2).
type reservation struct {
	claimant Claimant
	at       time.Time
	// began means that the remediation has begun, so far as is known: the next time that the
	// claimant looks, the caches show it. Until then the reservation is kept, but not beyond
	// the instant expires.
	began   bool
	expires time.Time
}

// remediating reports whether a node counts as under remediation.
func (n *countedNode) remediating() bool { return n.Remediating || n.reservation != nil }

// unhealthy reports whether a node counts as not healthy (spec B3.1).
func (n *countedNode) unhealthy() bool { return n.Unhealthy || n.NotReady || n.remediating() }

// NewCounts returns Counts without budgets and nodes.
func NewCounts() *Counts {
	return &Counts{budgets: map[string]*counted{}, nodes: map[string]*countedNode{}, reserved: sets.New[string](), waiting: map[Claimant][]*waiter{}}
}

// SetBudget adds or replaces a budget. Started are the last beginnings by group that its status
// has. What is known of the version before is kept.
func (c *Counts) SetBudget(budget *Budget, started map[string]time.Time) {
	fresh := &counted{bound: budget.at(time.Time{}), groups: map[string]*group{}, started: map[string]time.Time{}}
	maps.Copy(fresh.started, started)
	if old := c.budgets[budget.Name]; old != nil && old.UID == budget.UID {
		fresh.floor = old.floor
		for name, at := range old.started {
			if old.topologyKey != budget.topologyKey { // It may have been in any of the new groups.
				fresh.floor = latest(fresh.floor, at)
				delete(fresh.started, name)
			} else {
				fresh.started[name] = latest(fresh.started[name], at)
			}
		}
	}
	c.RemoveBudget(budget.Name)
	c.budgets[budget.Name] = fresh
	for name, node := range c.nodes {
		if !budget.selects(node.Labels) {
			continue
		}
		joined := fresh.group(budget.groupOf(node.Labels))
		node.groups = append(node.groups, joined)
		slices.SortFunc(node.groups, func(a, b *group) int { return strings.Compare(a.budget.Name, b.budget.Name) })
		joined.count(name, node, 1)
	}
}

// RemoveBudget forgets a budget.
func (c *Counts) RemoveBudget(name string) {
	old := c.budgets[name]
	if old == nil {
		return
	}
	delete(c.budgets, name)
	for _, node := range c.nodes {
		node.groups = slices.DeleteFunc(node.groups, func(g *group) bool { return g.budget == old })
	}
}

// Budget returns a budget by name, nil if there is none.
func (c *Counts) Budget(name string) *Budget {
	if found := c.budgets[name]; found != nil {
		return found.Budget
	}
	return nil
}

// Budgets returns the names of all budgets, sorted.
func (c *Counts) Budgets() []string { return slices.Sorted(maps.Keys(c.budgets)) }

// Nodes returns the names of all nodes that are known, in any order.
func (c *Counts) Nodes() []string { return slices.Collect(maps.Keys(c.nodes)) }

// SetNode brings a node up to date.
func (c *Counts) SetNode(name string, node Node) {
	c.update(name, func(known *countedNode) {
		if !node.Exists && node.Labels == nil {
			node.Labels = known.Labels
		}
		known.Node = node
	})
}

// reserve replaces the reservation of a node, which nil ends.
func (c *Counts) reserve(name string, r *reservation) {
	c.update(name, func(known *countedNode) { known.reservation = r })
	if r != nil {
		c.reserved.Insert(name)
	} else {
		c.reserved.Delete(name)
	}
}

// reservationOf returns the reservation of a node, nil if it has none.
func (c *Counts) reservationOf(name string) *reservation {
	if node := c.nodes[name]; node != nil {
		return node.reservation
	}
	return nil
}

// drop ends the reservations that match.
func (c *Counts) drop(matches func(*reservation) bool) {
	for name := range c.reserved {
		r := c.nodes[name].reservation
		if !matches(r) {
			continue
		}
		for _, g := range c.nodes[name].groups {
			g.started(r.at) // The remediation may be over before a cache has shown it.
		}
		c.reserve(name, nil)
	}
}

// update changes a node, and the numbers of its groups with it. One of which nothing is left to
// be known is forgotten.
func (c *Counts) update(name string, change func(*countedNode)) {
	node, known := c.nodes[name]
	if !known {
		node = &countedNode{}
	}
	for _, g := range node.groups {
		g.count(name, node, -1)
	}
	old := node.Labels
	change(node)
	if !node.Exists && !node.remediating() {
		delete(c.nodes, name)
		return
	}
	c.nodes[name] = node
	if !known || !maps.Equal(old, node.Labels) {
		node.groups = c.groupsOf(node.Labels)
	}
	for _, g := range node.groups {
		g.count(name, node, 1)
	}
}

// groupsOf returns the groups of a node with these labels, in order of the names of their
// budgets.
func (c *Counts) groupsOf(set labels.Set) (groups []*group) {
	for _, name := range slices.Sorted(maps.Keys(c.budgets)) {
		if budget := c.budgets[name]; budget.selects(set) {
			groups = append(groups, budget.group(budget.groupOf(set)))
		}
	}
	return groups
}

// group returns a group by name.
func (b *counted) group(name string) *group {
	found := b.groups[name]
	if found == nil {
		found = &group{name: name, budget: b, reserved: map[string]time.Time{}}
		b.groups[name] = found
	}
	return found
}

// at brings the schedules of a budget up to date.
func (b *counted) at(now time.Time) *bound {
	if !b.now.Equal(now) {
		b.bound = b.Budget.at(now)
	}
	return &b.bound
}

// count adds a node to the numbers of a group, or takes it away.
func (g *group) count(name string, node *countedNode, by int) {
	g.observed += by
	if node.unhealthy() {
		g.unhealthy += by
	}
	if node.remediating() {
		g.remediating += by
	}
	if delete(g.reserved, name); by < 0 {
		return
	}
	g.started(node.Started)
	if node.reservation != nil {
		g.reserved[name] = node.reservation.at
	}
}

// started records when a remediation of the group has begun.
func (g *group) started(at time.Time) {
	if at.After(g.budget.started[g.name]) {
		g.budget.started[g.name] = at
	}
}

// numbers returns what the budget is evaluated with.
func (g *group) numbers() numbers {
	last := latest(g.budget.floor, g.budget.started[g.name])
	for _, at := range g.reserved {
		last = latest(last, at)
	}
	return numbers{observed: g.observed, unhealthy: g.unhealthy, remediating: g.remediating, lastStarted: last}
}

// latest returns the last of some instants.
func latest(instants ...time.Time) (last time.Time) {
	for _, at := range instants {
		if at.After(last) {
			last = at
		}
	}
	return last
}

// NextChange returns the next instant at which time alone changes what the budgets allow, zero
// if it does not.
func (c *Counts) NextChange(now time.Time) (next time.Time) {
	for _, budget := range c.budgets {
		next = health.Earliest(next, budget.at(now).until)
		for _, g := range budget.groups {
			if start := budget.nextStart(g.numbers()); start.After(now) {
				next = health.Earliest(next, start)
			}
		}
	}
	return next
}
