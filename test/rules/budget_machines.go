// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// machinesUnhealthy tells whether some MachineHealthCheck judges a Machine that stands for a name unhealthy or
// soon unhealthy, as far as is known (spec B3.1, B3.5). A missing Node is only known after a live get (spec
// M6.2).
func (h *history) machinesUnhealthy(name string, nodes []*Node, w window) (c certainty) {
	if !h.followed || !h.activity.mayBeActive(w) {
		return c
	}
	surelyActive := h.activity.surelyActive(w)
	for _, key := range h.standing[name] {
		machines := h.machines[key].during(w.known, w.rv)
		for _, track := range h.mhcs {
			one := certainty{surely: surelyActive}
			for _, mhc := range track.during(w.known, w.rv) {
				for _, machine := range machines {
					if mhc == nil || !standsFor(name, machine) || !mhc.Selects(machine) {
						one.surely = false
						continue
					}
					for _, node := range nodes {
						missing := machine.Node != "" && node == nil && !machine.Failed()
						one.surely = one.surely && mhc.judgesUnhealthy(machine, node, w.known) && !mhc.broken && !missing
						one.maybe = one.maybe || mhc.judgesUnhealthy(machine, node, w.at)
					}
				}
			}
			c = c.or(one)
		}
	}
	return c
}

// judgesUnhealthy reports whether a MachineHealthCheck judges a target to be unhealthy, or soon.
func (m *MHC) judgesUnhealthy(machine *Machine, node *Node, now time.Time) bool {
	state := m.State(machine, node, false, now)
	return state == MachineUnhealthy || state == MachineSoonUnhealthy
}

// underwayOfMachines returns the remediations of MachineHealthChecks that may be under way, by the name
// of the Node, or of the Machine without a Node (spec B3.2). It finds them by Machines, by CRs, and by
// deletions whose replacement is not Healthy. by is the process that acts, empty if none does.
func (h *history) underwayOfMachines(w window, by string) map[string]underway {
	found := map[string]underway{}
	if !h.followed || !h.activity.mayBeActive(w) {
		return found
	}
	surelyActive := h.activity.surelyActive(w)
	note := func(name string, c certainty) {
		known := found[name]
		known.certainty = known.or(certainty{c.surely && surelyActive, c.maybe})
		found[name] = known
	}
	for key, track := range h.machines {
		versions := track.during(w.known, w.rv)
		if !some(versions, h.mayShowRemediation) {
			continue
		}
		name, known := h.nameOfMachine(key, w)
		selected := h.selectedBy(versions, w)
		shows := func(machine *Machine) bool {
			return machine != nil && (h.surelyDeletes(machine, w) || machine.Has(v1beta1.AnnotationExternalRemediation))
		}
		note(name, certainty{selected.surely && known && all(versions, shows), true})
		h.noteNames(key, w, note)
	}
	for _, d := range h.deletions {
		c := h.unreplaced(d, w, by)
		if !c.maybe {
			continue
		}
		name, known := h.nameOfMachine(d.machine, w)
		if c.surely && !known && h.remembered(d, w) {
			known = true
			found[name] = underway{found[name].certainty, true}
		}
		note(name, certainty{c.surely && known, true})
		h.noteNames(d.machine, w, note)
	}
	for _, track := range h.crs {
		versions := track.during(w.known, w.rv)
		for _, cr := range versions {
			if cr == nil || len(cr.Checks)+len(cr.FormerChecks) == 0 {
				continue
			}
			machine, known := h.nameOfMachine(cr.Machine, w)
			if len(cr.Checks) == 0 { // Counted if a MachineHealthCheck that is there now takes it over.
				note(machine, certainty{maybe: true})
				continue
			}
			selects := all(h.mhcs[cr.Checks[0]].during(w.known, w.rv), func(mhc *MHC) bool { return mhc != nil && mhc.Selects(h.machines[cr.Machine].at(w.rv)) })
			note(machine, certainty{existed(versions) && known && selects && h.refersToKindOf(cr, w), true})
			note(cr.Node, certainty{maybe: true})
			note(machineName(cr.Machine), certainty{maybe: true})
		}
	}
	for i := range h.begun { // What it has begun, a process knows before any cache shows it.
		if b := &h.begun[i]; b.machine && b.rv <= w.rv && w.at.Sub(b.answered) < ownMoment {
			note(b.name, certainty{maybe: true})
		}
	}
	return found
}

// underway is a remediation of a MachineHealthCheck, as far as it is known.
type underway struct {
	certainty
	// remembered means that the controller knows for certain the identity of the deleted Machine.
	remembered bool
}

// mayShowRemediation reports whether a Machine may show a remediation by a MachineHealthCheck. It is not always known
// which client has deleted it.
func (h *history) mayShowRemediation(machine *Machine) bool {
	return machine != nil && ((machine.Deleting && !h.deletedByOthers.Has(machine.UID)) || machine.Has(v1beta1.AnnotationExternalRemediation))
}

// selectedBy tells whether some MachineHealthCheck selects a Machine, as far as is known.
func (h *history) selectedBy(machines []*Machine, w window) (c certainty) {
	for _, track := range h.mhcs {
		checks := track.during(w.known, w.rv)
		selects := func(machine *Machine) certainty {
			by := func(mhc *MHC) bool { return mhc != nil && machine != nil && mhc.Selects(machine) && !mhc.broken }
			return certainty{all(checks, by), some(checks, by)}
		}
		c = c.or(certainty{
			all(machines, func(machine *Machine) bool { return selects(machine).surely }), some(machines, func(machine *Machine) bool { return selects(machine).maybe }),
		})
	}
	return c
}

// noteNames notes the names by which a Machine may count: those that it ever had, as it counts by the name of when it
// was looked at last.
func (h *history) noteNames(key string, w window, note func(string, certainty)) {
	note(machineName(key), certainty{maybe: true})
	for _, v := range h.machines[key] {
		if v.object != nil && v.rv <= w.rv {
			note(slotName(v.object), certainty{maybe: true})
		}
	}
}

// refersToKindOf reports whether the MachineHealthCheck of a CR referred to its kind, or listed it, all the
// time: a process that has started later looks for no others.
func (h *history) refersToKindOf(cr *CR, w window) bool {
	return all(h.mhcs[cr.Checks[0]].during(w.known, w.rv), func(mhc *MHC) bool {
		return mhc != nil && (mhc.refersTo(cr) || mhc.lists(cr))
	})
}

// nameOfMachine returns the name under which a Machine counts, that of its Node or its own, and whether
// it is certain. A Machine that is gone counts under its last name.
func (h *history) nameOfMachine(key string, w window) (name string, known bool) {
	versions := h.machines[key].during(w.known, w.rv)
	last := h.lastMachine(key, w.rv)
	if last == nil {
		return machineName(key), false
	}
	name = slotName(last)
	return name, all(versions, func(machine *Machine) bool { return machine != nil && slotName(machine) == name })
}
