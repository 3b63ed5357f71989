// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// overlaps knows how many nodes any two NodeHealthChecks both select, so that a sync
// reads a few numbers and nobody compares lists of nodes. Its zero value is ready to
// use.
//
// The handlers of Nodes and of NodeHealthChecks keep it up to date, each in a
// goroutine of its own, and later than the cache of Nodes by any number of events. No
// update is lost all the same, because of three rules:
//
//   - Whether a NodeHealthCheck selects a node is worked out under the lock, from the
//     selector that is known here and the node that is in the cache at that moment. The
//     node that an event carries is not looked at: it may be older than what another
//     handler has already seen.
//   - The cache changes before the handlers hear of it. Whatever change of a node a walk
//     over all nodes has missed, the event of that change is still to come, and is
//     handled after the walk.
//   - A result replaces the one before, so to work it out once more does no harm, and
//     the order of events does not matter: the last one finds the latest state.
type overlaps struct {
	mu        sync.RWMutex
	selectors map[string]labels.Selector
	// members are the NodeHealthChecks that select a node, in order, by the node.
	members map[string][]string
	// shared are the nodes of pairs: shared[a][b] and shared[b][a] are the same number.
	// Pairs without nodes are missing.
	shared map[string]map[string]int
}

// nodeChanged brings a node up to date. It returns the NodeHealthChecks that share
// more nodes or fewer since then.
func (o *overlaps) nodeChanged(nodes cache.Store, node string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, now := slices.Clone(o.members[node]), o.selecting(nodes, node)
	if slices.Equal(before, now) {
		return nil
	}
	changed := sets.New[string]()
	note := func(nhc string, others []string) {
		if len(others) > 0 {
			changed.Insert(nhc).Insert(others...)
		}
	}
	// Leave before joining: no pair is counted for a moment that never shared the node.
	for _, nhc := range before {
		if !slices.Contains(now, nhc) {
			note(nhc, o.leave(node, nhc))
		}
	}
	for _, nhc := range now {
		note(nhc, o.join(node, nhc))
	}
	return changed.UnsortedList()
}

// selecting returns the NodeHealthChecks that select a node, in order. Nobody selects
// a node that does not exist.
func (o *overlaps) selecting(nodes cache.Store, name string) []string {
	object, exists, err := nodes.GetByKey(name)
	if err != nil || !exists {
		return nil // A cache in memory has no errors.
	}
	node := object.(*corev1.Node)
	var names []string
	for nhc, selector := range o.selectors {
		if selector.Matches(labelSet(node)) {
			names = append(names, nhc)
		}
	}
	slices.Sort(names)
	return names
}

// set brings a NodeHealthCheck up to date that is new or may have another selector. It
// returns the NodeHealthChecks that share more nodes with it or fewer since then, and
// takes one match for each node.
func (o *overlaps) set(nodes cache.Store, nhc string, selector labels.Selector) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.selectors == nil {
		o.selectors, o.members, o.shared = map[string]labels.Selector{}, map[string][]string{}, map[string]map[string]int{}
	}
	o.selectors[nhc] = selector
	before := maps.Clone(o.shared[nhc])
	// Nodes that have left the cache are not among these: their events are to come.
	for _, object := range nodes.List() {
		node := object.(*corev1.Node)
		if selector.Matches(labelSet(node)) {
			o.join(node.Name, nhc)
		} else {
			o.leave(node.Name, nhc)
		}
	}
	return differing(before, o.shared[nhc])
}

// remove forgets a NodeHealthCheck. It returns those that have shared nodes with it.
func (o *overlaps) remove(nhc string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	others := slices.Collect(maps.Keys(o.shared[nhc]))
	delete(o.selectors, nhc)
	for node := range o.members {
		o.leave(node, nhc)
	}
	return others
}

// of returns the number of nodes that a NodeHealthCheck shares with others, by their
// names.
func (o *overlaps) of(nhc string) map[string]int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return maps.Clone(o.shared[nhc])
}

// covered returns the number of nodes that some NodeHealthCheck selects.
func (o *overlaps) covered() int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return len(o.members)
}

// join adds a NodeHealthCheck to those that select a node. It returns the others if it
// was not among them yet. The result is valid until the next change.
func (o *overlaps) join(node, nhc string) []string {
	others := o.members[node]
	place, member := slices.BinarySearch(others, nhc)
	if member {
		return nil
	}
	for _, other := range others {
		o.count(nhc, other, 1)
	}
	all := slices.Insert(slices.Clip(others), place, nhc)
	o.members[node] = all
	return others
}

// leave removes a NodeHealthCheck from those that select a node. It returns the others
// if it was among them. The result is valid until the next change.
func (o *overlaps) leave(node, nhc string) []string {
	place, member := slices.BinarySearch(o.members[node], nhc)
	if !member {
		return nil
	}
	others := slices.Delete(o.members[node], place, place+1)
	for _, other := range others {
		o.count(nhc, other, -1)
	}
	if o.members[node] = others; len(others) == 0 {
		delete(o.members, node)
	}
	return others
}

// count adds to the number of nodes that two NodeHealthChecks share.
func (o *overlaps) count(a, b string, change int) {
	for range 2 {
		if o.shared[a] == nil {
			o.shared[a] = map[string]int{}
		}
		if o.shared[a][b] += change; o.shared[a][b] == 0 {
			delete(o.shared[a], b)
		}
		if len(o.shared[a]) == 0 {
			delete(o.shared, a)
		}
		a, b = b, a
	}
}

// differing returns the keys that do not have the same number in both.
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

// setSelectorOverlap tells of other NodeHealthChecks that select some of the same
// nodes.
func setSelectorOverlap(conditions *[]metav1.Condition, nhc *v1alpha1.NodeHealthCheck, shared map[string]int, now time.Time) {
	condition := metav1.Condition{
		Type:               v1alpha1.ConditionSelectorOverlap,
		Status:             metav1.ConditionFalse,
		Reason:             v1alpha1.ReasonNoOverlap,
		Message:            "No other NodeHealthCheck selects any of the nodes",
		ObservedGeneration: nhc.Generation,
		LastTransitionTime: seconds(now),
	}
	if len(shared) > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonOverlap
		condition.Message = overlapMessage(shared)
	}
	meta.SetStatusCondition(conditions, condition)
}

// The message of condition SelectorOverlap names so many NodeHealthChecks at most, and
// so many bytes of them: it stays below 1 KB.
const (
	maxOverlapsNamed    = 10
	maxOverlapNamesSize = 800
)

// overlapMessage names the NodeHealthChecks that share nodes, in order, with their
// number.
func overlapMessage(shared map[string]int) string {
	var list strings.Builder
	named := 0
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		entry := fmt.Sprintf("%q (%d)", name, shared[name])
		if named == maxOverlapsNamed || list.Len()+len(entry) > maxOverlapNamesSize {
			break
		}
		if named > 0 {
			list.WriteString(", ")
		}
		list.WriteString(entry)
		named++
	}
	if more := len(shared) - named; more > 0 {
		fmt.Fprintf(&list, " and %d more", more)
	}
	return "Nodes are selected by other NodeHealthChecks too: " + list.String() + ". The one that obtains the lease of a node first remediates it"
}
