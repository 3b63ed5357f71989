// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeindex keeps which checks select which nodes, which of these nodes need a
// look, and which checks select the same nodes. Handlers of events feed it, so that a sync
// looks at the few nodes that may be unhealthy and not at ten thousand.
package nodeindex

import (
	"iter"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Nodes is the cache that an Index follows.
type Nodes interface {
	// Get returns a node, nil if the cache does not have it.
	Get(name string) *corev1.Node
	// All returns all nodes, in any order.
	All() iter.Seq[*corev1.Node]
}

// Version identifies one version of the spec of a check.
type Version struct {
	Name       string
	UID        types.UID
	Generation int64
}

// Check is what an Index needs of a check. If the answer of a function changes without a
// change of the node, the caller calls NodeChanged for that node.
type Check struct {
	Version
	// Selects reports whether the check is about a node.
	Selects func(*corev1.Node) bool
	// NeedsLook reports whether a node is unhealthy or may become so by time alone. Any
	// other node is healthy until an event says otherwise.
	NeedsLook func(*corev1.Node) bool
}

// Index relates checks and nodes. Its methods may be called from any goroutine.
//
// The handlers of Nodes and of checks each run in a goroutine of their own, and any number
// of events later than the cache of Nodes. Three rules ensure that no change is lost:
//
//   - Whether a check selects a node is computed under the lock, from the check that is
//     known here and the node that is in the cache at that moment. The node that an event
//     carries is not used: another handler may have seen a later one.
//   - The cache changes before its handlers are called. If a walk over all nodes has
//     missed a change, the event of that change is handled after the walk.
//   - A result replaces the one before. To compute it again does no harm, and the order of
//     events does not matter: the last one finds the latest state.
type Index struct {
	nodes Nodes

	mu     sync.Mutex
	checks map[string]*entry
	// selectedBy has the checks that select a node, by its name. A node that no check
	// selects is missing.
	selectedBy map[string][]*entry
}

// entry is a check, with what follows from the nodes that it selects.
type entry struct {
	Check
	selected int
	// needLook are the selected nodes that need a look, and sorted are the same in
	// order, nil after a change.
	needLook sets.Set[string]
	sorted   []string
	// overlaps are the numbers of nodes that other checks select too, by their names;
	// never zero.
	overlaps map[string]int
}

// New returns an index without checks.
func New(nodes Nodes) *Index {
	return &Index{nodes: nodes, checks: map[string]*entry{}, selectedBy: map[string][]*entry{}}
}

// SetCheck adds or replaces a check, at the cost of one match for each node. It returns
// the other checks that share more nodes with it or fewer than before. A version that is
// known changes nothing.
func (x *Index) SetCheck(check Check) (others []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.checks[check.Name]
	if e == nil {
		e = &entry{needLook: sets.New[string](), overlaps: map[string]int{}}
		x.checks[check.Name] = e
	} else if e.Version == check.Version {
		return nil
	}
	before := maps.Clone(e.overlaps)
	e.Check = check
	// A node that has just left the cache is not among these: its event will come.
	for node := range x.nodes.All() {
		x.relate(e, node.Name, node)
	}
	return differing(before, e.overlaps)
}

// RemoveCheck forgets a check. It returns the checks that have shared nodes with it.
func (x *Index) RemoveCheck(name string) (others []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.checks[name]
	if e == nil {
		return nil
	}
	others = slices.Collect(maps.Keys(e.overlaps))
	delete(x.checks, name)
	for node := range x.selectedBy {
		x.leave(e, node)
	}
	return others
}

// NodeChanged updates everything about a node from the cache. It returns the affected
// checks: if matters is true, or other checks select the node than before, these are all
// that select it or did. Otherwise it returns none.
func (x *Index) NodeChanged(name string, matters bool) (affected []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.selectedBy[name] {
		affected = append(affected, e.Name)
	}
	node := x.nodes.Get(name)
	for _, e := range x.checks {
		joined, left := x.relate(e, name, node)
		if joined {
			affected = append(affected, e.Name)
		}
		matters = matters || joined || left
	}
	if !matters {
		return nil
	}
	return affected
}

// NeedingLook returns the nodes of a check that need a look, in order of name. It returns false if
// the index does not have this version of the check: its handler will set this version, or a later
// one. The names are shared, the caller must not change them.
func (x *Index) NeedingLook(check Version) (names []string, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.checks[check.Name]
	if e == nil || e.Version != check {
		return nil, false
	}
	if e.sorted == nil {
		e.sorted = sets.List(e.needLook)
	}
	return e.sorted, true
}

// CountOthers returns how many nodes a check selects that need no look, besides these. It returns
// false if the index does not have this version of the check.
func (x *Index) CountOthers(check Version, these iter.Seq[string]) (others int, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.checks[check.Name]
	if e == nil || e.Version != check {
		return 0, false
	}
	others = e.selected - len(e.needLook)
	for node := range these {
		if !e.needLook.Has(node) && slices.Contains(x.selectedBy[node], e) {
			others--
		}
	}
	return others, true
}

// NeedsLook reports whether a node needs a look for some check that selects it.
func (x *Index) NeedsLook(node string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.selectedBy[node], func(e *entry) bool { return e.needLook.Has(node) })
}

// Overlaps returns how many nodes of a check others select too, by the names of these.
func (x *Index) Overlaps(check string) map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.checks[check]; e != nil {
		return maps.Clone(e.overlaps)
	}
	return nil
}

// Covered returns the number of nodes that some check selects.
func (x *Index) Covered() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.selectedBy)
}

// Names returns the names of all checks, in no order.
func (x *Index) Names() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Keys(x.checks))
}

// Has reports whether there is a check of this name.
func (x *Index) Has(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.checks[name] != nil
}

// relate updates the relation of a check to a node, which is nil if it is gone. It
// reports whether the check has begun, or has ceased, to select it.
func (x *Index) relate(e *entry, name string, node *corev1.Node) (joined, left bool) {
	if node == nil || !e.Selects(node) {
		return false, x.leave(e, name)
	}
	joined = x.join(e, name)
	e.setNeedsLook(name, e.NeedsLook(node))
	return joined, false
}

// join adds a check to those that select a node. It reports whether it was not among them.
func (x *Index) join(e *entry, node string) bool {
	others := x.selectedBy[node]
	if slices.Contains(others, e) {
		return false
	}
	for _, other := range others {
		e.share(other, 1)
	}
	x.selectedBy[node] = append(others, e)
	e.selected++
	return true
}

// leave removes a check from those that select a node. It reports whether it was among
// them.
func (x *Index) leave(e *entry, node string) bool {
	position := slices.Index(x.selectedBy[node], e)
	if position < 0 {
		return false
	}
	others := slices.Delete(x.selectedBy[node], position, position+1)
	for _, other := range others {
		e.share(other, -1)
	}
	if x.selectedBy[node] = others; len(others) == 0 {
		delete(x.selectedBy, node)
	}
	e.selected--
	e.setNeedsLook(node, false)
	return true
}

// setNeedsLook records whether a selected node needs a look.
func (e *entry) setNeedsLook(node string, needsLook bool) {
	if e.needLook.Has(node) == needsLook {
		return
	}
	if e.sorted = nil; needsLook {
		e.needLook.Insert(node)
	} else {
		e.needLook.Delete(node)
	}
}

// share adds to the number of nodes that two checks both select.
func (e *entry) share(other *entry, change int) {
	for range 2 {
		if e.overlaps[other.Name] += change; e.overlaps[other.Name] == 0 {
			delete(e.overlaps, other.Name)
		}
		e, other = other, e
	}
}

// differing returns the keys with different numbers in a and b.
func differing(a, b map[string]int) []string {
	var keys []string
	for key, n := range a {
		if b[key] != n {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, known := a[key]; !known {
			keys = append(keys, key)
		}
	}
	return keys
}
