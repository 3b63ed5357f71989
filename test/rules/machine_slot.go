// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// controlPlaneMachine reports whether a Machine is one of the control plane for certain: by its
// labels, or because its Node was one all the time.
func (h *history) controlPlaneMachine(machine *Machine, w window) bool {
	if machine == nil {
		return false
	}
	return machine.ControlPlane() || all(h.nodes[machine.Node].during(w.known, w.rv), func(node *Node) bool { return node != nil && node.ControlPlane() })
}

// looksAfter reports whether a MachineHealthCheck selects a Machine: of others it is not known live
// that their Node is gone.
func (h *history) looksAfter(machine *Machine, rv uint64) bool {
	for _, versions := range h.mhcs {
		if mhc := versions.at(rv); mhc != nil && mhc.Selects(machine) {
			return true
		}
	}
	return false
}

// takesSlot reports whether a control plane Machine takes the slot of the control plane (spec
// M13.1). Absent means that its Node was gone.
func takesSlot(machine *Machine, absent bool) bool {
	return machine.Deleting || machine.Has(v1beta1.AnnotationExternalRemediation) || machine.Node == "" || absent
}

// slotName is the name by which a Machine takes the slot: that of its Node, or its own.
func slotName(machine *Machine) string {
	if machine.Node != "" {
		return machine.Node
	}
	return machineName(machine.Key())
}

// occupants returns the control plane Machines that took the slot all the time.
func (h *history) occupants(w window) (keys []string) {
	for key, versions := range h.machines {
		takes := func(machine *Machine) bool {
			if machine == nil || !h.controlPlaneMachine(machine, w) {
				return false
			}
			absent := machine.Node != "" && all(h.nodes[machine.Node].during(w.known, w.rv), func(node *Node) bool { return node == nil })
			return takesSlot(machine, absent && h.looksAfter(machine, w.rv))
		}
		if all(versions.during(w.known, w.rv-1), takes) {
			keys = append(keys, key)
		}
	}
	return keys
}

// takesItself reports whether a Machine takes the slot itself.
func (j *Judge) takesItself(b beginning, machine *Machine) bool {
	return takesSlot(machine, machine.Node != "" && !existed(j.nodes[machine.Node].during(b.known, b.rv)))
}

// machineSlotFree judges that no other control plane Machine or node was under remediation when
// that of a control plane Machine began (spec M13.1). One that takes the slot itself may go on.
func (j *Judge) machineSlotFree(b beginning, machine *Machine) finding {
	if !j.controlPlaneMachine(machine, b.window) {
		return finding{rule: "M13.1"}
	}
	own := j.takesItself(b, machine)
	for _, key := range j.occupants(b.window) {
		other := j.lastMachine(key, b.rv-1)
		if other.UID == machine.UID {
			continue
		}
		first := key < machine.Key() && slotName(other) <= slotName(machine)
		if !own || first {
			return finding{"M13.1", "the remediation of a control plane Machine begins while Machine " + key + " takes the slot"}
		}
	}
	for key := range j.crs {
		cr := j.crs[key].at(b.rv - 1)
		if cr == nil || !cr.ByController || cr.Node == machine.Node || cr.Machine == machine.Key() || !existed(j.crs[key].during(b.known, b.rv-1)) {
			continue
		}
		if cr.ControlPlane {
			return finding{"M13.1", "the remediation of a control plane Machine begins while " + cr.String() + " is for another one"}
		}
	}
	return finding{rule: "M13.1"}
}

// machinesLeaveSlot judges that no control plane Machine took the slot when a control plane node
// got its first CR (spec M13.1).
func (j *Judge) machinesLeaveSlot(w window) finding {
	member := func(node *Node) bool { return node != nil && node.ControlPlane() }
	if !w.first || len(j.machines) == 0 || !all(j.nodes[w.node].during(w.nodeKnown, w.rv), member) || !j.activity.surelyActive(w) {
		return finding{rule: "M13.1"}
	}
	occupants := j.occupants(w)
	for _, key := range j.machinesNaming(w.node, w.known, w.rv) {
		if some(j.machines[key].during(w.known, w.rv), func(machine *Machine) bool { return machine != nil && takesSlot(machine, false) }) {
			return finding{rule: "M13.1"} // It takes the slot itself.
		}
	}
	return check("M13.1", len(occupants) > 0, "control plane node %s gets a CR while Machines %v take the slot", w.node, occupants)
}
