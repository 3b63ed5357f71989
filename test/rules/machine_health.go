// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// MachineState is the health of a target (spec M6.1).
type MachineState string

// The states.
const (
	MachineDeleting         MachineState = "Deleting"
	MachineUnhealthy        MachineState = "Unhealthy"
	MachineSoonUnhealthy    MachineState = "SoonUnhealthy"
	MachineNotStarted       MachineState = "NotStarted"
	MachineUnderRemediation MachineState = "UnderRemediation"
	MachineHealthy          MachineState = "Healthy"
)

// startupExtension bounds by how many timeouts changes of its status put off the start of a
// Machine (spec M6.3).
const startupExtension = 6

// startBy returns until when a Machine has to have a Node, and never if it need not.
func (m *MHC) startBy(machine *Machine) time.Time {
	if m.startup == 0 {
		return never
	}
	begin := machine.Created
	if machine.Updated.After(begin) {
		begin = machine.Updated
	}
	if latest := machine.Created.Add(startupExtension * m.startup); begin.After(latest) {
		begin = latest
	}
	return begin.Add(m.startup)
}

// criterion returns which criterion a Machine meets first, empty if none (spec M6.2). The Node is
// nil if there is none.
func (m *MHC) criterion(machine *Machine, node *Node, now time.Time) string {
	switch {
	case machine.Failed():
		return v1beta1.TriggerMachineFailed
	case machine.Node != "" && node == nil:
		return v1beta1.TriggerNodeMissing
	case machine.Node == "" && !now.Before(m.startBy(machine)):
		return v1beta1.TriggerNodeStartupTimeout
	case node != nil && Unhealthy(m.conditions, node.by(machine), now):
		return v1beta1.TriggerUnhealthyCondition
	default:
		return ""
	}
}

// longestUpdate is how long the update of the machine configuration of a Node holds its Machine (spec M9.1).
const longestUpdate = 30 * time.Minute

// updates reports whether the machine configuration of the Node is being changed, so that its Machine is not
// remediated for a while. Since when a Machine is unhealthy for another reason than a condition is not known here.
func (m *MHC) updates(machine *Machine, node *Node, now time.Time) bool {
	if m.forTermination() || node == nil || m.criterion(machine, node, now) != v1beta1.TriggerUnhealthyCondition {
		return false
	}
	first, _ := deadline(m.conditions, node.by(machine))
	return node.Updates() && now.Before(first.latest.Add(longestUpdate))
}

// by returns the Node as it counts for a Machine: nothing lasts for longer than the Machine (spec M6.2).
func (n *Node) by(machine *Machine) *Node {
	if !machine.Created.After(n.Created) {
		return n
	}
	judged := *n
	judged.Created = machine.Created
	return &judged
}

// healthy reports whether a target counts as healthy, which no time changes (spec M6.1).
// Remediated means that it has an own CR.
func (m *MHC) healthy(machine *Machine, node *Node, remediated bool) bool {
	return !machine.Deleting && !machine.Failed() && node != nil && !Matches(m.conditions, node) && !remediated && !machine.Has(v1beta1.AnnotationExternalRemediation)
}

// State returns the state of a target.
func (m *MHC) State(machine *Machine, node *Node, remediated bool, now time.Time) MachineState {
	switch {
	case machine.Deleting:
		return MachineDeleting
	case m.criterion(machine, node, now) != "":
		return MachineUnhealthy
	case machine.Node == "":
		return MachineNotStarted
	case Matches(m.conditions, node):
		return MachineSoonUnhealthy
	case remediated || machine.Has(v1beta1.AnnotationExternalRemediation):
		return MachineUnderRemediation
	default:
		return MachineHealthy
	}
}

// machineCounts are the largest possible number of targets of a MachineHealthCheck, and the smallest
// possible number of unhealthy ones.
type machineCounts struct{ targetsMax, unhealthyMin int }

// mayAllow reports whether the threshold can have allowed remediations (spec M7.1).
func (c machineCounts) mayAllow(m *MHC) bool {
	most, valid := m.limit(c.targetsMax)
	return valid && c.unhealthyMin <= most
}

// targets counts the targets of one version of a MachineHealthCheck as they may have been seen.
func (h *history) targets(m *MHC, w window) (c machineCounts) {
	for _, versions := range h.machines {
		machines := versions.during(w.known, w.rv)
		if !some(machines, m.Selects) {
			continue
		}
		c.targetsMax++
		healthy := func(machine *Machine) bool {
			remediated := h.ownOf(m.Key(), machine, w)
			return some(h.nodes[machine.Node].during(w.known, w.rv), func(node *Node) bool { return m.healthy(machine, node, remediated) })
		}
		if all(machines, m.Selects) && !some(machines, healthy) {
			c.unhealthyMin++
		}
	}
	return c
}

// ownOf reports whether a MachineHealthCheck had an own CR for a Machine all the time. A CR that a later
// process cannot know does not count (see stale).
func (h *history) ownOf(mhc string, machine *Machine, w window) bool {
	then := &snapshot{history: h, rv: w.rv, now: w.at}
	for key := range h.crsOfMachine[machine.Key()] {
		if all(h.crs[key].during(w.known, w.rv), func(cr *CR) bool { return cr != nil && cr.CheckedBy(mhc) && !then.stale(cr) }) {
			return true
		}
	}
	return false
}
