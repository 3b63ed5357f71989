// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// identity is the form in which a node, or a Machine without a Node, may have counted: by the labels of
// the Node, or by the Machine that stands for it.
type identity struct {
	labels   []labels.Set
	machines []machineIdentity
}

// machineIdentity is what budgets have to know of a Machine. The zero value stands for none.
type machineIdentity struct {
	namespace string
	labels    labels.Set
}

func (m machineIdentity) isNone() bool { return m.namespace == "" }

// place is where a budget counts something: in a group, if it selects it.
type place struct {
	group    string
	selected bool
}

// places returns where a budget may count something: a budget about Machines by its Machine, others by
// its Node.
func (b *Budget) places(of *identity) (places []place) {
	add := func(set labels.Set, exists bool) {
		group, selected := b.group(set)
		places = append(places, place{group, exists && selected})
	}
	if b.machineNamespace == "" {
		for _, set := range of.labels {
			add(set, true)
		}
		return places
	}
	for _, machine := range of.machines {
		add(machine.labels, machine.namespace == b.machineNamespace)
	}
	return places
}

// inGroup tells whether something that counts is in a group of a budget, as far as is known.
func inGroup(b *Budget, group string, of *identity) certainty {
	places := b.places(of)
	c := certainty{surely: len(places) > 0}
	for _, p := range places {
		matches := p.selected && p.group == group
		c.surely, c.maybe = c.surely && matches, c.maybe || matches
	}
	return c
}

// identityOf returns the identity under which a name may have counted.
func (h *history) identityOf(name string, w window) identity {
	return identity{labels: h.labelsOf(name, w), machines: h.machinesOf(name, w)}
}

// labelsOf returns the labels with which a node may have counted. One that is gone counts with those
// that it had last, as far as the controller has seen them, or with none after a restart (spec B3.2).
func (h *history) labelsOf(name string, w window) (possible []labels.Set) {
	for _, node := range h.nodes[name].during(w.known, w.rv) {
		if node != nil {
			possible = append(possible, node.Labels)
			continue
		}
		possible = append(possible, labels.Set{})
		possible = append(possible, h.lastLabels(name, w)...)
	}
	return possible
}

// lastLabels returns the labels that a node which is gone had in the last while of its existence.
func (h *history) lastLabels(name string, w window) (possible []labels.Set) {
	var end time.Time
	for _, v := range slices.Backward(h.nodes[name]) {
		switch {
		case v.rv > w.rv:
		case v.object == nil:
			if len(possible) == 0 {
				end = v.seen
			}
		default:
			possible = append(possible, v.object.Labels)
			if v.seen.Before(end.Add(-recent)) {
				return possible
			}
		}
	}
	return possible
}

// machinesOf returns the Machines that may have stood for a name: the first one by its own name among those
// with that Node (spec B3.5). If none is certain, it may be an earlier one, or none.
func (h *history) machinesOf(name string, w window) (possible []machineIdentity) {
	for _, key := range h.standing[name] {
		versions := h.machines[key].during(w.known, w.rv)
		for _, machine := range versions {
			if standsFor(name, machine) {
				possible = append(possible, machineIdentity{machine.Namespace, machine.Labels})
			}
		}
		if all(versions, func(machine *Machine) bool { return standsFor(name, machine) }) {
			return possible
		}
	}
	for _, key := range h.standing[name] {
		possible = append(possible, h.lastStood(key, name, w.rv)...)
	}
	return append(possible, machineIdentity{})
}

func standsFor(name string, machine *Machine) bool {
	return machine != nil && slotName(machine) == name
}

// recent is for how long something may have been overlooked because it has changed again since.
const recent = 2 * time.Minute

// lastStood returns the identity of a Machine in the last time in which it stood for a name.
func (h *history) lastStood(key, name string, until uint64) (possible []machineIdentity) {
	var end time.Time
	for _, v := range slices.Backward(h.machines[key]) {
		switch {
		case v.rv > until:
		case standsFor(name, v.object):
			possible = append(possible, machineIdentity{v.object.Namespace, v.object.Labels})
			if v.seen.Before(end.Add(-recent)) {
				return possible
			}
		case len(possible) == 0:
			end = v.seen
		default:
			return possible
		}
	}
	return possible
}

// machineStands tells whether a Machine stands for a name, as far as is known.
func (h *history) machineStands(name string, w window) (c certainty) {
	for _, key := range h.standing[name] {
		versions := h.machines[key].during(w.known, w.rv)
		stands := func(machine *Machine) bool { return standsFor(name, machine) }
		c = c.or(certainty{all(versions, stands), some(versions, stands)})
	}
	return c
}
