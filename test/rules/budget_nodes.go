// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// budgetNode is a node, or a Machine without a Node, as it counts for budgets, as far as is known
// (spec B3).
type budgetNode struct {
	name string
	identity
	// exists is about the Node, and machineExists about the Machine.
	exists, machineExists, unhealthy, remediating certainty
}

// String describes the node. "?" marks what may be so.
func (n *budgetNode) String() string {
	text := []string{n.name}
	for _, what := range []struct {
		name string
		is   certainty
	}{{"exists", n.exists}, {"has a Machine", n.machineExists}, {"not healthy", n.unhealthy}, {"under remediation", n.remediating}} {
		switch {
		case what.is.surely:
			text = append(text, what.name)
		case what.is.maybe:
			text = append(text, what.name+"?")
		}
	}
	return "(" + strings.Join(text, ", ") + ")"
}

// counts tells whether the node counts in a group of a budget, as far as is known.
func (n *budgetNode) counts(b *Budget, group string) certainty {
	exists := n.exists
	if b.machineNamespace != "" {
		exists = n.machineExists
	}
	return n.in(b, group).and(exists.or(n.remediating))
}

// in tells whether the labels of the node put it into a group of a budget, as far as is
// known.
func (n *budgetNode) in(b *Budget, group string) certainty { return inGroup(b, group, &n.identity) }

// budgetNodes returns all that may count, as it may have been seen in a window. By is the process that
// acts, which knows of its own remediations at once; it is empty if none does.
func (h *history) budgetNodes(w window, by string) []budgetNode {
	names := sets.New[string]()
	for name := range h.nodes {
		names.Insert(name)
	}
	for name := range h.crsOf {
		names.Insert(name)
	}
	for name, keys := range h.standing {
		if slices.ContainsFunc(keys, func(key string) bool { return some(h.machines[key].during(w.known, w.rv), isThere) }) {
			names.Insert(name)
		}
	}
	machines := h.underwayOfMachines(w, by)
	for name := range machines {
		names.Insert(name)
	}
	all := make([]budgetNode, 0, len(names))
	for _, name := range sets.List(names) {
		n := budgetNode{name: name, identity: h.identityOf(name, w)}
		n.machineExists = h.machineStands(name, w)
		if machines[name].remembered {
			n.machines = slices.DeleteFunc(n.machines, machineIdentity.isNone)
		} else if machines[name].maybe && !n.machineExists.surely {
			n.machines = append(n.machines, h.kin(name, w)...)
		}
		versions := h.nodes[name].during(w.known, w.rv)
		for _, node := range versions {
			n.exists.maybe = n.exists.maybe || node != nil
		}
		n.exists.surely = existed(versions)
		n.remediating = h.remediatedByAny(name, w, by).or(machines[name].certainty)
		n.unhealthy = n.remediating.or(n.exists.and(h.judgedUnhealthy(versions, w))).or(h.machinesUnhealthy(name, versions, w))
		if n.exists.maybe || n.machineExists.maybe || n.remediating.maybe {
			all = append(all, n)
		}
	}
	return all
}

// ownMoment is how long after the creation of a CR the process that has created it knows of it for
// certain, whether or not its cache shows it.
const ownMoment = 30 * time.Second

// startTime is how long after its start a process may not have read all kinds of CRs.
const startTime = 5 * time.Second

// startedSince reports whether a process has started after an instant.
func (h *history) startedSince(at time.Time) bool {
	return slices.ContainsFunc(h.activity.starts, at.Before)
}

// remediatedByAny tells whether a node had a CR of some NodeHealthCheck, as far as is known.
func (h *history) remediatedByAny(name string, w window, by string) (c certainty) {
	for key := range h.crsOf[name] {
		own := func(cr *CR) bool { return cr != nil && cr.Node == name && len(cr.Owners) > 0 }
		versions := h.crs[key].during(w.known, w.rv)
		c.maybe = c.maybe || some(versions, own)
		last := h.crs[key].at(w.rv)
		if !own(last) || !h.lookedAt(last, w) || (!last.ByController && h.startedSince(w.at.Add(-startTime))) {
			continue // Of a CR that users have created, status does not tell before its kind has been read.
		}
		justBegun := by != "" && last.Process == by && w.at.Sub(last.Created) < ownMoment
		c.surely = c.surely || all(versions, own) || justBegun
	}
	return c
}

// judgedUnhealthy tells whether a node is not Ready, or some NodeHealthCheck that selects it finds a
// matching condition, as far as is known (spec B3.1).
func (h *history) judgedUnhealthy(versions []*Node, w window) (c certainty) {
	notReady := func(node *Node) bool { return node != nil && !node.Ready() }
	c = certainty{all(versions, notReady), some(versions, notReady)}
	for _, track := range h.nhcs {
		checks := track.during(w.known, w.rv)
		matches := func(node *Node) certainty {
			judges := func(nhc *NHC) bool {
				return nhc != nil && nhc.Selects(node) && NotHealthy(nhc.Spec.UnhealthyConditions, node)
			}
			if node == nil {
				return certain(false)
			}
			return certainty{all(checks, judges), some(checks, judges)}
		}
		c = c.or(certainty{
			all(versions, func(node *Node) bool { return matches(node).surely }), some(versions, func(node *Node) bool { return matches(node).maybe }),
		})
	}
	return c
}
