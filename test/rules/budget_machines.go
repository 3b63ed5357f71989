// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// machinesUnhealthy is what is known about whether some MachineHealthCheck judges a Machine that stands for
// a name to be unhealthy, or soon (spec B3.1, B3.5). That a Node is missing is only known after a live
// get (spec M6.2).
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

// underwayOfMachines is what is known about which remediations of MachineHealthChecks are underway, by
// the name of the Node, or of the Machine if it has none: the open entries of their histories, and
// their CRs (spec B3.2).
func (h *history) underwayOfMachines(w window) map[string]underway {
	found := map[string]underway{}
	if !h.followed || !h.activity.mayBeActive(w) {
		return found
	}
	surelyActive := h.activity.surelyActive(w)
	note := func(name string, c certainty) {
		known := found[name]
		known.certainty = known.or(c)
		found[name] = known
	}
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
				if !known && open && h.remembered(key(mhc.Namespace, entry.Machine), track, entry, w) {
					known = true
					found[machine] = underway{found[machine].certainty, true}
				}
				note(machine, certainty{open && known && surelyActive, true})
				for _, v := range h.machines[key(mhc.Namespace, entry.Machine)] { // It counts by the name of when it was looked at last.
					if v.object != nil && v.rv <= w.rv {
						note(slotName(v.object), certainty{maybe: true})
					}
				}
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
			note(machineName(cr.Machine), certainty{maybe: true})
		}
	}
	h.requestedOfMachines(w, note)
	return found
}

// underway is what is known about a remediation of a MachineHealthCheck.
type underway struct {
	certainty
	// remembered means that the controller knows for certain as what the Machine counted, though it is
	// gone.
	remembered bool
}

// settledBefore is how long before a Machine was gone the controller must have known it as it was.
const settledBefore = 5 * time.Second

// remembered reports whether the present leader knows for certain by what name a Machine that is gone
// counts, and as what: it led when the Machine was gone, and so long there have been budgets, and the
// remediation has been underway.
func (h *history) remembered(machine string, checks track[MHC], entry *v1beta1.Remediation, w window) bool {
	versions := h.machines[machine]
	gone := slices.IndexFunc(versions, func(v version[Machine]) bool { return v.object == nil })
	if gone < 0 || gone != len(versions)-1 || versions[gone].rv > w.rv || !versions[gone].seen.Before(w.known) {
		return false // It is there, or has been there again.
	}
	since := versions[gone].seen.Add(-settledBefore)
	name := slotName(versions[gone-1].object)
	long := window{known: since, rv: w.rv, at: w.at}
	if h.ledSince(since) || !h.activity.surelyActive(long) || !all(versions[:gone].during(since, w.rv), func(m *Machine) bool { return standsFor(name, m) }) {
		return false
	}
	budgeted := false
	for _, track := range h.budgets {
		budgeted = budgeted || existed(track.during(since, w.rv))
	}
	return budgeted && all(checks.during(since, w.rv), func(mhc *MHC) bool {
		return mhc != nil && slices.ContainsFunc(mhc.Status.RemediationHistory, sameOpen(entry))
	})
}

// refersToKindOf reports whether the MachineHealthCheck of a CR referred to its kind, or listed it, all the
// time: a process that has started later looks for no others.
func (h *history) refersToKindOf(cr *CR, w window) bool {
	return all(h.mhcs[cr.Checks[0]].during(w.known, w.rv), func(mhc *MHC) bool {
		return mhc != nil && (mhc.refersTo(cr) || mhc.lists(cr))
	})
}

// requestedOfMachines adds the Machines of which the controller has requested something that the history
// of no MachineHealthCheck may show yet.
func (h *history) requestedOfMachines(w window, note func(string, certainty)) {
	for key, track := range h.machines {
		for _, machine := range track.during(w.known, w.rv) {
			if machine != nil && ((machine.Deleting && h.deletedByUs.Has(machine.UID)) ||
				(machine.Has(v1beta1.AnnotationExternalRemediation) && h.annotatedByUs.Has(machine.UID))) {
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
