// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Node is what budgets know of a node (spec B3).
type Node struct {
	// Exists reports whether there is a Node object. A Node that is gone keeps its last labels as
	// long as it is under remediation or has a Machine. Unknown labels count as none.
	Exists bool
	Labels map[string]string
	// NotReady reports whether condition Ready is not True.
	NotReady bool
	// Machine is the Machine that names the node, or the Machine without a Node that this
	// entry stands for.
	Machine Machine
	// Observation is what the health checks know of the node.
	Observation
}

// Machine is what budgets know of a Machine. The zero value stands for none.
type Machine struct {
	// Exists reports whether there is a Machine. A Machine that is gone keeps its namespace and labels as
	// long as its node is under remediation.
	Exists    bool
	Namespace string
	Labels    map[string]string
}

func (m *Machine) equal(other *Machine) bool {
	return m.Exists == other.Exists && m.Namespace == other.Namespace && maps.Equal(m.Labels, other.Labels)
}

func (n *Node) equal(other *Node) bool {
	return n.Exists == other.Exists && n.NotReady == other.NotReady && n.Observation == other.Observation &&
		maps.Equal(n.Labels, other.Labels) && n.Machine.equal(&other.Machine)
}

// Observation is what health checks know of a node.
type Observation struct {
	// Unhealthy reports whether a health check that selects the node judges it not to be
	// healthy.
	Unhealthy bool
	// Remediating reports whether a health check has the node under remediation. Started is
	// since when, zero if that is unknown.
	Remediating bool
	Started     time.Time
}

// Merge adds what another kind of health checks knows. The later one of two beginnings counts.
func (o *Observation) Merge(other Observation) {
	o.Unhealthy = o.Unhealthy || other.Unhealthy
	o.Remediating = o.Remediating || other.Remediating
	o.Started = latest(o.Started, other.Started)
}

// Counts counts nodes for budgets, and knows which askers wait for them. It may be used
// from one goroutine at a time.
type Counts struct {
	// UnaskedUntil is until when some health checks may not have asked yet: it is not known whether a budget is still exhausted.
	UnaskedUntil time.Time
	// budgets are in order of their names.
	budgets []*counted
	nodes   map[string]*countedNode
	// reserved are the names of the nodes that have a reservation.
	reserved sets.Set[string]
	waiting  map[Asker]*queue
	// admitted are the requests that no budget refuses, and that do not begin.
	admitted map[Asker][]*waiter
	// yielding are the requests that got a place and did not begin, and since when they
	// yield to all others.
	yielding map[attempted]time.Time
}

// countedNode is a node, or a Machine without one, with the groups in which it counts, in order of
// the names of their budgets.
type countedNode struct {
	Node
	groups []*group
	// reservation is that of a remediation that has begun, or is about to, nil if there is none.
	reservation *reservation
}

// remediating reports whether a node counts as under remediation.
func (n *countedNode) remediating() bool { return n.Remediating || n.reservation != nil }

// exists reports whether there is anything to be counted.
func (n *countedNode) exists() bool { return n.Exists || n.Machine.Exists || n.remediating() }

// countsIn reports whether a node counts for a budget, and the name of its group. A Machine without a
// Node counts as a node once it is under remediation, and a Node without a Machine as a Machine.
func (n *countedNode) countsIn(b *Budget) (group string, counts bool) {
	exists := n.Exists
	if b.machineNamespace != "" {
		exists = n.Machine.Exists
	}
	if !exists && !n.remediating() {
		return "", false
	}
	return b.selects(&n.Node)
}

// countsAs reports whether a node is in the same groups as another one.
func (n *countedNode) countsAs(other *countedNode) bool {
	return n.Exists == other.Exists && n.remediating() == other.remediating() && maps.Equal(n.Labels, other.Labels) && n.Machine.equal(&other.Machine)
}

// unhealthy reports whether a node counts as not healthy (spec B3.1).
func (n *countedNode) unhealthy() bool { return n.Unhealthy || n.NotReady || n.remediating() }

// NewCounts returns Counts without budgets and nodes.
func NewCounts() *Counts {
	return &Counts{nodes: map[string]*countedNode{}, reserved: sets.New[string](), waiting: map[Asker]*queue{}, admitted: map[Asker][]*waiter{}, yielding: map[attempted]time.Time{}}
}

// SetBudget adds or replaces a budget. past is what its status says, nil if it says nothing. SetBudget keeps what is
// known of the earlier version.
func (c *Counts) SetBudget(budget *Budget, past *Past) {
	fresh := &counted{Budget: budget, groups: map[string]*group{}, started: map[string]time.Time{}, within: map[string]time.Time{}}
	if past != nil {
		fresh.recall(past)
	}
	if old := c.find(budget.Name); old != nil && old.UID == budget.UID {
		fresh.inherit(old)
	}
	c.RemoveBudget(budget.Name)
	i, _ := slices.BinarySearchFunc(c.budgets, budget.Name, byName)
	c.budgets = slices.Insert(c.budgets, i, fresh)
	for name, node := range c.nodes {
		group, counts := node.countsIn(budget)
		if !counts {
			continue
		}
		joined := fresh.group(group)
		i, _ := slices.BinarySearchFunc(node.groups, budget.Name, groupOfBudget)
		node.groups = slices.Insert(node.groups, i, joined)
		joined.add(name, node)
	}
}

// inherit takes over the past from the earlier version. If that version has other groups, the last beginning may have
// been in any new group, and any new group may have been part of a group that cools down. A version that could not be
// evaluated for a while has the same groups.
func (b *counted) inherit(old *counted) {
	b.floor, b.regrouped = old.floor, old.regrouped
	unreadable := old.Generation == b.Generation && (old.Problem != "" || b.Problem != "")
	if unreadable || (old.topologyKey == b.topologyKey && old.machineNamespace == b.machineNamespace) {
		b.recall(&Past{Started: old.started, Within: old.within})
		return
	}
	for name, at := range old.started {
		b.floor = latest(b.floor, at)
		delete(b.started, name)
	}
	b.regrouped = b.regrouped || len(b.within)+len(old.within) > 0
	clear(b.within)
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

// look makes all budgets look at their groups.
func (c *Counts) look(now time.Time) {
	for _, budget := range c.budgets {
		budget.look(now)
	}
}

// Concerns reports whether a remediation of a node concerns any budget.
func (c *Counts) Concerns(node string) bool { return len(c.concerned(c.nodes[node])) > 0 }

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

// Stop names the first budget that stops everything, with its reason. It is empty if none does.
func (c *Counts) Stop() string {
	for _, b := range c.budgets {
		if b.StopsAll() {
			return strings.TrimSuffix("RemediationBudget "+b.Name+" stops everything: "+b.Reason, ": ")
		}
	}
	return ""
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
		if !node.Machine.Exists && known.Machine.Namespace != "" {
			node.Machine.Namespace, node.Machine.Labels = known.Machine.Namespace, known.Machine.Labels
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

// StopFollowing tells that SetNode is not called until there is a budget again. Labels of existing nodes
// may change until then, so they are forgotten. Nodes that are gone keep their last labels (spec B3.2).
func (c *Counts) StopFollowing() {
	for _, node := range c.nodes {
		if node.Exists {
			node.Labels = nil
		}
		if node.Machine.Exists {
			node.Machine.Namespace, node.Machine.Labels = "", nil
		}
	}
}

// update changes a node, and the numbers of its groups with it. It forgets a node without any
// facts left.
func (c *Counts) update(name string, change func(*countedNode)) {
	node, known := c.nodes[name]
	if !known {
		node = &countedNode{}
		c.nodes[name] = node
	}
	for _, g := range node.groups {
		g.remove(name, node)
	}
	before := *node
	change(node)
	if !node.Machine.Exists && !node.remediating() {
		node.Machine = Machine{}
	}
	if !node.exists() {
		delete(c.nodes, name)
		return
	}
	if !known || !node.countsAs(&before) {
		if node.reservation != nil && before.reservation != nil && !before.reservation.pending() { // It was in these groups when it began.
			for _, g := range node.groups {
				g.started(node.reservation.at)
			}
		}
		node.groups = c.groupsOf(node.countsIn)
	}
	for _, g := range node.groups {
		g.add(name, node)
	}
}

// groupsOf returns the groups in which a node is, in order of the names of their budgets.
func (c *Counts) groupsOf(isIn func(*Budget) (group string, is bool)) (groups []*group) {
	for _, budget := range c.budgets {
		if name, is := isIn(budget.Budget); is {
			groups = append(groups, budget.group(name))
		}
	}
	return groups
}

// NextChange returns the next instant after now at which time alone changes an answer of the
// budgets, or at which Expire drops something. It is zero if there is none.
func (c *Counts) NextChange(now time.Time) (next time.Time) {
	at := func(instant time.Time) {
		if instant.After(now) {
			next = health.Earliest(next, instant)
		}
	}
	at(c.UnaskedUntil)
	for _, budget := range c.budgets {
		at(budget.at(now).recheck)
		at(budget.nextStart(budget.floor))
		for _, started := range budget.started { // Also of groups without nodes: Machines may wait.
			at(budget.nextStart(started))
		}
		for name := range budget.within {
			at(budget.group(name).cooledDown())
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
	for _, since := range c.yielding {
		at(since.Add(yieldFor))
	}
	return next
}
