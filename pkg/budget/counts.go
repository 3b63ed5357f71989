// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"maps"
	"slices"
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

func (n *Node) equal(other *Node) bool {
	return n.Exists == other.Exists && n.NotReady == other.NotReady && n.Observation == other.Observation && maps.Equal(n.Labels, other.Labels)
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

// Merge adds what another kind of health checks knows. Of two beginnings the later one counts.
func (o *Observation) Merge(other Observation) {
	o.Unhealthy = o.Unhealthy || other.Unhealthy
	o.Remediating = o.Remediating || other.Remediating
	o.Started = latest(o.Started, other.Started)
}

// Counts counts nodes for budgets, and knows who waits for them. It may be used from one
// goroutine at a time.
type Counts struct {
	// budgets are in order of their names.
	budgets []*counted
	nodes   map[string]*countedNode
	// reserved are the names of the nodes that have a reservation.
	reserved sets.Set[string]
	waiting  map[Claimant]*queue
}

// countedNode is a node with the groups in which it counts, in order of the names of their
// budgets.
type countedNode struct {
	Node
	groups []*group
	// reservation is that of a remediation that has begun, or is about to, nil if there is none.
	reservation *reservation
}

// remediating reports whether a node counts as under remediation.
func (n *countedNode) remediating() bool { return n.Remediating || n.reservation != nil }

// unhealthy reports whether a node counts as not healthy (spec B3.1).
func (n *countedNode) unhealthy() bool { return n.Unhealthy || n.NotReady || n.remediating() }

// NewCounts returns Counts without budgets and nodes.
func NewCounts() *Counts {
	return &Counts{nodes: map[string]*countedNode{}, reserved: sets.New[string](), waiting: map[Claimant]*queue{}}
}

// SetBudget adds or replaces a budget. Started are the last beginnings by group that its status
// has. What is known of the version before is kept.
func (c *Counts) SetBudget(budget *Budget, started map[string]time.Time) {
	fresh := &counted{Budget: budget, groups: map[string]*group{}, started: map[string]time.Time{}}
	maps.Copy(fresh.started, started)
	if old := c.find(budget.Name); old != nil && old.UID == budget.UID {
		fresh.inherit(old)
	}
	c.RemoveBudget(budget.Name)
	i, _ := slices.BinarySearchFunc(c.budgets, budget.Name, byName)
	c.budgets = slices.Insert(c.budgets, i, fresh)
	for name, node := range c.nodes {
		if !budget.selector.Matches(labels.Set(node.Labels)) {
			continue
		}
		joined := fresh.group(budget.groupOf(node.Labels))
		i, _ := slices.BinarySearchFunc(node.groups, budget.Name, groupOfBudget)
		node.groups = slices.Insert(node.groups, i, joined)
		joined.add(name, node)
	}
}

// inherit takes over the last beginnings from the version before.
func (b *counted) inherit(old *counted) {
	b.floor = old.floor
	for name, at := range old.started {
		if old.topologyKey != b.topologyKey { // It may have been in any of the new groups.
			b.floor = latest(b.floor, at)
			delete(b.started, name)
		} else {
			b.started[name] = latest(b.started[name], at)
		}
	}
}

// RemoveBudget forgets a budget.
func (c *Counts) RemoveBudget(name string) {
	i, found := slices.BinarySearchFunc(c.budgets, name, byName)
	if !found {
		return
	}
	c.budgets = slices.Delete(c.budgets, i, i+1)
	for _, node := range c.nodes {
		if i, found := slices.BinarySearchFunc(node.groups, name, groupOfBudget); found {
			node.groups = slices.Delete(node.groups, i, i+1)
		}
	}
}

// find returns a budget by name, nil if there is none.
func (c *Counts) find(name string) *counted {
	if i, found := slices.BinarySearchFunc(c.budgets, name, byName); found {
		return c.budgets[i]
	}
	return nil
}

// Budget returns a budget by name, nil if there is none.
func (c *Counts) Budget(name string) *Budget {
	if found := c.find(name); found != nil {
		return found.Budget
	}
	return nil
}

// Budgets returns the names of all budgets, sorted.
func (c *Counts) Budgets() []string {
	names := make([]string, len(c.budgets))
	for i, budget := range c.budgets {
		names[i] = budget.Name
	}
	return names
}

// Nodes returns the names of all nodes that are known, in any order.
func (c *Counts) Nodes() []string { return slices.Collect(maps.Keys(c.nodes)) }

// SetNode brings a node up to date.
func (c *Counts) SetNode(name string, node Node) {
	begun := node.Remediating
	if known := c.nodes[name]; known != nil {
		if !node.Exists && node.Labels == nil {
			node.Labels = known.Labels
		}
		if node.equal(&known.Node) {
			return
		}
		begun = node.Remediating && (!known.Remediating || node.Started.After(known.Started))
	}
	c.update(name, func(known *countedNode) { known.Node = node })
	if r := c.reservationOf(name); r != nil && begun {
		if r.shown = true; r.began {
			c.settle(name)
		}
	}
}

// update changes a node, and the numbers of its groups with it. One of which nothing is left to
// be known is forgotten.
func (c *Counts) update(name string, change func(*countedNode)) {
	node, known := c.nodes[name]
	if !known {
		node = &countedNode{}
		c.nodes[name] = node
	}
	for _, g := range node.groups {
		g.remove(name, node)
	}
	before := node.Labels
	change(node)
	if !node.Exists && !node.remediating() {
		delete(c.nodes, name)
		return
	}
	if !known || !maps.Equal(before, node.Labels) {
		if node.reservation != nil && before != nil { // It was in these groups when it began.
			for _, g := range node.groups {
				g.started(node.reservation.at)
			}
		}
		node.groups = c.groupsOf(node.Labels)
	}
	for _, g := range node.groups {
		g.add(name, node)
	}
}

// groupsOf returns the groups of a node with these labels, in order of the names of their
// budgets.
func (c *Counts) groupsOf(set labels.Set) (groups []*group) {
	for _, budget := range c.budgets {
		if budget.selector.Matches(set) {
			groups = append(groups, budget.group(budget.groupOf(set)))
		}
	}
	return groups
}

// NextChange returns the next instant after now at which time alone changes what the budgets
// allow, to whom, or what Expire drops. It is zero if there is none.
func (c *Counts) NextChange(now time.Time) (next time.Time) {
	at := func(instant time.Time) {
		if instant.After(now) {
			next = health.Earliest(next, instant)
		}
	}
	for _, budget := range c.budgets {
		at(budget.at(now).recheck)
		at(budget.nextStart(budget.floor))
		for _, started := range budget.started { // Also of groups without nodes: Machines may wait.
			at(budget.nextStart(started))
		}
	}
	for name := range c.reserved {
		node := c.nodes[name]
		at(node.reservation.expires)
		for _, g := range node.groups {
			at(g.budget.nextStart(node.reservation.at))
		}
	}
	for _, waiting := range c.waiting {
		if !waiting.woken.IsZero() {
			at(waiting.woken.Add(precedence))
		}
	}
	return next
}
