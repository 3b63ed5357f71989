// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// budgetNode is what is known of a node, or of a Machine without one, that counts for budgets (spec
// B3).
type budgetNode struct {
	name string
	// labels are those with which it may have counted.
	labels                         []labels.Set
	exists, unhealthy, remediating certainty
}

// String tells what is known of the node: "?" is what may be.
func (n *budgetNode) String() string {
	text := []string{n.name}
	for _, what := range []struct {
		name string
		is   certainty
	}{{"exists", n.exists}, {"not healthy", n.unhealthy}, {"under remediation", n.remediating}} {
		switch {
		case what.is.surely:
			text = append(text, what.name)
		case what.is.maybe:
			text = append(text, what.name+"?")
		}
	}
	return "(" + strings.Join(text, ", ") + ")"
}

// counts is what is known about whether it counts in a group of a budget.
func (n *budgetNode) counts(b *Budget, group string) certainty {
	return n.in(b, group).and(n.exists.or(n.remediating))
}

// in is what is known about whether its labels put it into a group of a budget.
func (n *budgetNode) in(b *Budget, group string) certainty { return inGroup(b, group, n.labels) }

func inGroup(b *Budget, group string, possible []labels.Set) certainty {
	c := certainty{surely: true}
	for _, set := range possible {
		name, selected := b.group(set)
		matches := selected && name == group
		c.surely, c.maybe = c.surely && matches, c.maybe || matches
	}
	return c
}

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
	machines := h.underwayOfMachines(w)
	for name := range machines {
		names.Insert(name)
	}
	all := make([]budgetNode, 0, len(names))
	for _, name := range sets.List(names) {
		n := budgetNode{name: name, labels: h.labelsOf(name, w)}
		versions := h.nodes[name].during(w.known, w.rv)
		for _, node := range versions {
			n.exists.maybe = n.exists.maybe || node != nil
		}
		n.exists.surely = existed(versions)
		n.remediating = h.remediatedByAny(name, w, by).or(machines[name])
		n.unhealthy = n.remediating.or(n.exists.and(h.judgedUnhealthy(versions, w).or(h.machinesUnhealthy(name, versions, w))))
		if n.exists.maybe || n.remediating.maybe {
			all = append(all, n)
		}
	}
	return all
}

// labelsOf returns the labels with which a node may have counted. One that is gone counts with those
// that it had last, or with none after a restart (spec B3.2).
func (h *history) labelsOf(name string, w window) (possible []labels.Set) {
	for _, node := range h.nodes[name].during(w.known, w.rv) {
		if node != nil {
			possible = append(possible, node.Labels)
			continue
		}
		possible = append(possible, labels.Set{})
		for _, v := range slices.Backward(h.nodes[name]) {
			if v.rv <= w.rv && v.object != nil {
				possible = append(possible, v.object.Labels)
				break
			}
		}
	}
	return possible
}

// ownMoment is how long after the creation of a CR the process that has created it knows of it for
// certain, whether or not its cache shows it.
const ownMoment = 30 * time.Second

// remediatedByAny is what is known about whether a node had a CR of some NodeHealthCheck.
func (h *history) remediatedByAny(name string, w window, by string) (c certainty) {
	for key := range h.crsOf[name] {
		own := func(cr *CR) bool { return cr != nil && cr.Node == name && len(cr.Owners) > 0 }
		versions := h.crs[key].during(w.known, w.rv)
		c.maybe = c.maybe || some(versions, own)
		last := h.crs[key].at(w.rv)
		if !own(last) || !h.referenced(last, w) {
			continue
		}
		justBegun := by != "" && last.Process == by && w.at.Sub(last.Created) < ownMoment
		c.surely = c.surely || all(versions, own) || justBegun
	}
	return c
}

// judgedUnhealthy is what is known about whether a node is not Ready, or some NodeHealthCheck that
// selects it finds a condition that matches (spec B3.1).
func (h *history) judgedUnhealthy(versions []*Node, w window) (c certainty) {
	notReady := func(node *Node) bool { return node != nil && !node.Ready() }
	c = certainty{all(versions, notReady), some(versions, notReady)}
	for _, track := range h.nhcs {
		checks := track.during(w.known, w.rv)
		matches := func(node *Node) certainty {
			judges := func(nhc *NHC) bool {
				return nhc != nil && nhc.Selects(node) && Matches(nhc.Spec.UnhealthyConditions, node)
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

// machinesUnhealthy is the same for MachineHealthChecks.
func (h *history) machinesUnhealthy(name string, nodes []*Node, w window) (c certainty) {
	if !h.followed || !h.activity.mayBeActive(w) {
		return c
	}
	surelyActive := h.activity.surelyActive(w)
	for _, key := range h.machinesNaming(name, w.known, w.rv) {
		machines := h.machines[key].during(w.known, w.rv)
		for _, track := range h.mhcs {
			one := certainty{surely: surelyActive}
			for _, mhc := range track.during(w.known, w.rv) {
				for _, machine := range machines {
					for _, node := range nodes {
						judges := mhc != nil && machine != nil && machine.Node == name && mhc.Selects(machine) && mhc.judgesUnhealthy(machine, node, w)
						one.surely, one.maybe = one.surely && judges && !mhc.broken, one.maybe || judges
					}
				}
			}
			c = c.or(one)
		}
	}
	return c
}

// judgesUnhealthy reports whether a MachineHealthCheck judges a target to be unhealthy, or soon.
func (m *MHC) judgesUnhealthy(machine *Machine, node *Node, w window) bool {
	state := m.State(machine, node, false, w.at)
	return state == MachineUnhealthy || state == MachineSoonUnhealthy
}

// underwayOfMachines is what is known about which remediations of MachineHealthChecks are underway, by
// the name of the Node, or of the Machine if it has none: the open entries of their histories, and
// their CRs (spec B3.2).
func (h *history) underwayOfMachines(w window) map[string]certainty {
	found := map[string]certainty{}
	if !h.followed || !h.activity.mayBeActive(w) {
		return found
	}
	surelyActive := h.activity.surelyActive(w)
	note := func(name string, c certainty) { found[name] = found[name].or(c) }
	for _, track := range h.mhcs {
		versions := track.during(w.known, w.rv)
		for _, mhc := range versions {
			if mhc == nil {
				continue
			}
			for i := range mhc.Status.RemediationHistory {
				entry := &mhc.Status.RemediationHistory[i]
				if !isOpen(entry) {
					continue
				}
				open := all(versions, func(other *MHC) bool {
					return other != nil && slices.ContainsFunc(other.Status.RemediationHistory, sameOpen(entry))
				})
				machine, known := h.nameOfMachine(key(mhc.Namespace, entry.Machine), w)
				note(machine, certainty{open && known && surelyActive, true})
				note(entry.TargetName, certainty{maybe: entry.TargetKind == "Node"})
				note(machineName(key(mhc.Namespace, entry.Machine)), certainty{maybe: true})
			}
		}
	}
	for _, track := range h.crs {
		versions := track.during(w.known, w.rv)
		for _, cr := range versions {
			if cr == nil || len(cr.Checks) == 0 {
				continue
			}
			machine, known := h.nameOfMachine(cr.Machine, w)
			selects := all(h.mhcs[cr.Checks[0]].during(w.known, w.rv), func(mhc *MHC) bool { return mhc != nil && mhc.Selects(h.machines[cr.Machine].at(w.rv)) })
			note(machine, certainty{existed(versions) && known && selects && h.refersToKindOf(cr, w) && surelyActive, true})
			note(cr.Node, certainty{maybe: true})
		}
	}
	h.requestedOfMachines(w, note)
	return found
}

// refersToKindOf reports whether the MachineHealthCheck of a CR referred to its kind all the time: a
// process that has started later looks for no others.
func (h *history) refersToKindOf(cr *CR, w window) bool {
	return all(h.mhcs[cr.Checks[0]].during(w.known, w.rv), func(mhc *MHC) bool {
		return mhc != nil && mhc.Spec.RemediationTemplate != nil && mhc.Spec.RemediationTemplate.Kind == cr.Kind+"Template"
	})
}

// requestedOfMachines adds the Machines of which the controller has requested something that the history
// of no MachineHealthCheck may show yet.
func (h *history) requestedOfMachines(w window, note func(string, certainty)) {
	for key, track := range h.machines {
		for _, machine := range track.during(w.known, w.rv) {
			if machine != nil && h.byUs[machine.UID] && (machine.Deleting || machine.Has(v1beta1.AnnotationExternalRemediation)) {
				note(slotName(machine), certainty{maybe: true})
				note(machineName(key), certainty{maybe: true})
			}
		}
	}
	for i := range h.begun { // Also of one that is gone already.
		if b := &h.begun[i]; b.machine && b.rv <= w.rv && w.at.Sub(b.answered) < ownMoment {
			note(b.name, certainty{maybe: true})
		}
	}
}

// isOpen reports whether a remediation has started and not ended.
func isOpen(entry *v1beta1.Remediation) bool {
	return entry.Started != nil && entry.Finished == nil && entry.Closed == nil
}

// sameOpen finds the open remediation of the same Machine.
func sameOpen(entry *v1beta1.Remediation) func(v1beta1.Remediation) bool {
	return func(other v1beta1.Remediation) bool { return other.Machine == entry.Machine && isOpen(&other) }
}

// nameOfMachine returns by what name a Machine counts: that of its Node, or its own; and whether that
// is known for certain. A Machine that is gone counts by the name that it had last.
func (h *history) nameOfMachine(key string, w window) (name string, known bool) {
	versions := h.machines[key].during(w.known, w.rv)
	last := h.lastMachine(key, w.rv)
	if last == nil {
		return machineName(key), false
	}
	name = slotName(last)
	return name, all(versions, func(machine *Machine) bool { return machine != nil && slotName(machine) == name })
}
