// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// unclaimed judges that a node which got its first CR from a NodeHealthCheck belonged to no
// MachineHealthCheck, and that none was at work on it (spec M15).
func (j *Judge) unclaimed(w window) finding {
	if !w.first {
		return finding{rule: "M15.1"}
	}
	for _, key := range j.machinesNaming(w.node, w.known, w.rv) {
		machines := j.machines[key].during(w.known, w.rv)
		named := func(machine *Machine) bool { return machine != nil && machine.Node == w.node }
		for check, versions := range j.mhcs {
			claims := func(mhc *MHC) bool {
				return mhc != nil && !mhc.forTermination() && all(machines, func(machine *Machine) bool { return named(machine) && mhc.Selects(machine) })
			}
			if j.activity.surelyActive(w) && all(versions.during(w.known, w.rv), claims) {
				return finding{"M15.1", "a node gets a CR that belongs to " + mhcName(check)}
			}
		}
		busy := func(machine *Machine) bool {
			return named(machine) && machine.Has(v1beta1.AnnotationExternalRemediation)
		}
		if all(machines, busy) && (j.activity.surelyActive(w) || j.annotatedByUs.Has(j.machines[key].at(w.rv).UID) && !j.leaseSpoiled(key, busy, w)) {
			return finding{"M15.2", "a node gets a CR while its Machine " + key + " is under external remediation"}
		}
		deleted := func(machine *Machine) bool { return named(machine) && machine.Deleting }
		doomed := func(machine *Machine) bool { return named(machine) && machine.deletedBefore(j.nodes[w.node].at(w.rv)) }
		if all(machines, doomed) && j.activity.surelyActive(w) {
			return finding{"M15.2", "a node gets a CR whose Machine " + key + " was being deleted already when the Node appeared"}
		}
		if all(machines, deleted) && j.deletedByUs.Has(j.machines[key].at(w.rv).UID) && j.nodeWhenDeleted(key, w.rv) == w.node && !j.leaseSpoiled(key, deleted, w) {
			return finding{"M15.2", "a node gets a CR while its Machine " + key + " is being deleted by a MachineHealthCheck"}
		}
	}
	return finding{rule: "M15.1"}
}

// machineTakesSlotFrom reports whether a control plane Machine takes the slot from a node. The first
// by name of those that do may go on (spec M13.1).
func (p *snapshot) machineTakesSlotFrom(subject string) bool {
	var names []string
	for _, machine := range p.machinesInSlot() {
		names = append(names, slotName(machine))
	}
	slices.Sort(names)
	others := slices.ContainsFunc(names, func(name string) bool { return name != subject })
	return others && names[0] != subject
}

// machinesInSlot returns the control plane Machines that take the slot.
func (p *snapshot) machinesInSlot() (members []*Machine) {
	for _, versions := range p.machines {
		machine := versions.at(p.rv)
		if machine == nil {
			continue
		}
		node := p.nodes[machine.Node].at(p.rv)
		if (machine.ControlPlane() || (node != nil && node.ControlPlane())) && takesSlot(machine, node == nil) {
			members = append(members, machine)
		}
	}
	return members
}

// nodeWhenDeleted returns the Node that a Machine named when its deletion was requested: the lease is of
// that one.
func (h *history) nodeWhenDeleted(machine string, rv uint64) (node string) {
	for _, version := range slices.Backward(h.machines[machine]) {
		if version.rv > rv {
			continue
		}
		if version.object == nil || !version.object.Deleting {
			return node
		}
		node = version.object.Node
	}
	return node
}

// leaseSpoiled reports whether another client has deleted the lease of a MachineHealthCheck, or changed it
// so that it is not valid (spec 14.3), since its Machine is being remediated. It need not be taken
// again: that a lease is to be kept (spec M10.3) does not mean that a deleted one comes back (spec 14.8).
// Or it has run out while another controller looked after MachineHealthChecks (spec M3.5).
func (j *Judge) leaseSpoiled(machine string, remediated func(*Machine) bool, w window) bool {
	since := w.known
	for _, version := range slices.Backward(j.machines[machine]) {
		if version.rv > w.rv {
			continue
		}
		if version.object == nil || !remediated(version.object) {
			break
		}
		since = version.seen
	}
	if slices.ContainsFunc(j.leasesDeleted[w.node], func(at time.Time) bool { return !at.Before(since) && !at.After(w.at) }) {
		return true
	}
	leases := slices.DeleteFunc(j.leasesDuring(w.node, since, w.rv), func(lease *coordinationv1.Lease) bool {
		_, held := checkOfHolder(holderOf(lease))
		return !held
	})
	return slices.ContainsFunc(leases, func(lease *coordinationv1.Lease) bool { return !complete(lease) }) || (len(leases) > 0 && j.ranOut(leases[0], w))
}

// ranOut reports whether a lease has run out and the controller may not have been active when it was to be
// renewed (spec 14.5).
func (j *Judge) ranOut(lease *coordinationv1.Lease, w window) bool {
	end, known := leaseEnd(lease)
	return known && !end.After(w.at) && !j.activity.surelyActive(window{known: end.Add(-v1alpha1.LeaseBuffer), rv: w.rv, at: end})
}
