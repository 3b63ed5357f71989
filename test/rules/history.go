// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// version is a state of an object: it begins at resource version rv, which was visible
// at the time seen at the latest, and ends where the next version begins.
type version[T any] struct {
	rv   uint64
	seen time.Time
	// object is nil if there is none.
	object *T
}

// track has all versions of one object, in order. Before the first one there was none.
type track[T any] []version[T]

// at returns the object as it was at a resource version, or nil.
func (t track[T]) at(rv uint64) *T {
	for _, v := range slices.Backward(t) {
		if v.rv <= rv {
			return v.object
		}
	}
	return nil
}

// seenBefore returns when the version before a resource version was seen.
func (t track[T]) seenBefore(rv uint64) time.Time {
	for _, v := range slices.Backward(t) {
		if v.rv < rv {
			return v.seen
		}
	}
	return time.Time{}
}

// during returns the versions that an observer may have used. It has seen everything that
// was visible at the time since, and may have seen all up to a resource version. Nil
// stands for no object. There is at least one version.
func (t track[T]) during(since time.Time, until uint64) []*T {
	var during []*T
	for _, v := range slices.Backward(t) {
		if v.rv > until {
			continue
		}
		during = append(during, v.object)
		if !v.seen.After(since) {
			return during
		}
	}
	return append(during, nil)
}

// all reports whether something holds for every version.
func all[T any](versions []*T, holds func(*T) bool) bool {
	return !slices.ContainsFunc(versions, func(v *T) bool { return !holds(v) })
}

// some reports whether something holds for any version.
func some[T any](versions []*T, holds func(*T) bool) bool {
	return slices.ContainsFunc(versions, holds)
}

// existed reports whether there was an object in all versions.
func existed[T any](versions []*T) bool { return all(versions, func(v *T) bool { return v != nil }) }

// history is all that was seen of a cluster.
type history struct {
	nodes map[string]track[Node]
	nhcs  map[string]track[NHC]
	crs   map[string]track[CR] // By kind and name.
	// leases are those of nodes, by the name of the Lease.
	leases map[string]track[coordinationv1.Lease]
	// templates are by resource and name.
	templates map[string]track[Template]
	// crsOf and leasesOf are the keys of those of a node, and crsOfMachine those of a Machine.
	crsOf, leasesOf, crsOfMachine map[string]sets.Set[string]
	machineHistory
	budgets map[string]track[Budget]
	// terms are when processes of the controller began to lead.
	terms []time.Time
}

func newHistory() *history {
	return &history{
		nodes: map[string]track[Node]{}, nhcs: map[string]track[NHC]{}, crs: map[string]track[CR]{},
		leases: map[string]track[coordinationv1.Lease]{}, templates: map[string]track[Template]{},
		crsOf: map[string]sets.Set[string]{}, leasesOf: map[string]sets.Set[string]{}, crsOfMachine: map[string]sets.Set[string]{},
		machineHistory: newMachineHistory(), budgets: map[string]track[Budget]{},
	}
}

// add adds a version to a track. An object that is nil is gone.
func add[T any](tracks map[string]track[T], key string, rv uint64, seen time.Time, object *T) {
	tracks[key] = append(tracks[key], version[T]{rv: rv, seen: seen, object: object})
}

func (h *history) addCR(key string, rv uint64, seen time.Time, cr *CR) {
	add(h.crs, key, rv, seen, cr)
	if cr != nil {
		index(h.crsOf, cr.Node, key)
		if len(cr.Checks) > 0 {
			index(h.crsOfMachine, cr.Machine, key)
		}
	}
}

func (h *history) addLease(key string, rv uint64, seen time.Time, lease *coordinationv1.Lease) {
	add(h.leases, key, rv, seen, lease)
	if lease != nil {
		index(h.leasesOf, nodeOfLease(lease), key)
	}
}

func index(keys map[string]sets.Set[string], node, key string) {
	if keys[node] == nil {
		keys[node] = sets.New[string]()
	}
	keys[node].Insert(key)
}

// crsAt returns the CRs for a node at a resource version, in the order of their keys.
func (h *history) crsAt(node string, rv uint64) map[string]*CR {
	found := map[string]*CR{}
	for key := range h.crsOf[node] {
		if cr := h.crs[key].at(rv); cr != nil && cr.Node == node {
			found[key] = cr
		}
	}
	return found
}

// leasesDuring returns all versions of the lease of a node, see track.during.
func (h *history) leasesDuring(node string, since time.Time, until uint64) []*coordinationv1.Lease {
	var found []*coordinationv1.Lease
	for key := range h.leasesOf[node] {
		found = append(found, h.leases[key].during(since, until)...)
	}
	if len(found) == 0 {
		return []*coordinationv1.Lease{nil}
	}
	return found
}

// countsBy counts the nodes that one version of a NodeHealthCheck selects, as they may have
// been seen.
func (h *history) countsBy(nhc *NHC, w window) NodeCounts {
	nhcs, since, until, now := []*NHC{nhc}, w.known, w.rv, w.at
	var c NodeCounts
	for name, versions := range h.nodes {
		nodes := versions.during(since, until)
		selected := func(node *Node) bool {
			return node != nil && some(nhcs, func(nhc *NHC) bool { return nhc != nil && nhc.Selects(node) })
		}
		always, ever := all(nodes, selected), some(nodes, selected)
		if !ever {
			continue
		}
		c.ObservedMax++
		matches := func(node *Node) bool {
			return node != nil && all(nhcs, func(nhc *NHC) bool { return nhc == nil || NotHealthy(nhc.Spec.UnhealthyConditions, node) })
		}
		remediated, everRemediated := h.remediated(name, nhcs, since, until)
		notHealthy := all(nodes, matches) || remediated
		everNotHealthy := everRemediated || some(nodes, func(node *Node) bool {
			return selected(node) && some(nhcs, func(nhc *NHC) bool { return nhc != nil && NotHealthy(nhc.Spec.UnhealthyConditions, node) })
		})
		c.add(always, notHealthy, everNotHealthy, everRemediated)
		c.Unhealthy = c.Unhealthy || some(nodes, func(node *Node) bool {
			return selected(node) && some(nhcs, func(nhc *NHC) bool { return nhc != nil && mayBeUnhealthy(nhc.Spec.UnhealthyConditions, node, now) })
		})
	}
	return c
}

// add adds a node that may have been selected. Always means that it was for certain,
// notHealthy that it was for certain not healthy, and the others that it may have been.
func (c *NodeCounts) add(always, notHealthy, everNotHealthy, everRemediated bool) {
	if always {
		c.ObservedMin++
		if notHealthy {
			c.NotHealthyMin++
		}
		if !everNotHealthy {
			c.HealthyMin++
		}
	}
	if !notHealthy {
		c.HealthyMax++
	}
	if everNotHealthy {
		c.NotHealthyMax++
	}
	if everRemediated {
		c.RemediatedMax++
	}
}

// remediated reports whether a node had an own CR of the NodeHealthCheck all the time,
// and whether it had one at any time.
func (h *history) remediated(node string, nhcs []*NHC, since time.Time, until uint64) (always, ever bool) {
	name := ""
	for _, nhc := range nhcs {
		if nhc != nil {
			name = nhc.Name
		}
	}
	for key := range h.crsOf[node] {
		own := func(cr *CR) bool {
			return cr != nil && cr.Node == node && cr.OwnedBy(name)
		}
		versions := h.crs[key].during(since, until)
		always, ever = always || all(versions, own), ever || some(versions, own)
	}
	return always, ever
}
