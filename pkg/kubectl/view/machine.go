// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// MachineExplanation is all that is known about one Machine.
type MachineExplanation struct {
	// Time is the instant at which it holds.
	Time      metav1.Time `json:"time"`
	Namespace string      `json:"namespace"`
	Machine   string      `json:"machine"`
	Leader    *Leader     `json:"leader,omitempty"`
	// Known is false for a Machine that cannot be read, or is gone.
	Known    bool   `json:"known"`
	Phase    string `json:"phase,omitempty"`
	Node     string `json:"node,omitempty"`
	Deleting bool   `json:"deleting,omitempty"`
	// Owned is false for a Machine that no controller would replace.
	Owned bool `json:"owned"`
	// Checks are the MachineHealthChecks that select the Machine, or list it.
	Checks  []CheckOfMachine `json:"machineHealthChecks"`
	Missing []Missing        `json:"missing,omitempty"`
}

// CheckOfMachine is what one MachineHealthCheck makes of the Machine.
type CheckOfMachine struct {
	Name string `json:"name"`
	Held *Held  `json:"held,omitempty"`
	// Target is absent for a Machine that status does not list: it is healthy, as the controller says.
	Target *Target `json:"target,omitempty"`
}

// NewMachineExplanation explains a Machine, nil if it cannot be read. The result is nil if there is no such
// Machine, and no MachineHealthCheck lists one.
func NewMachineExplanation(namespace, name string, snapshot *Snapshot, machine *machinehealth.Machine, now time.Time) *MachineExplanation {
	e := &MachineExplanation{Time: metav1.NewTime(now), Namespace: namespace, Machine: name, Leader: snapshot.Leader, Checks: []CheckOfMachine{}, Missing: snapshot.Missing}
	if machine != nil {
		e.Known, e.Phase, e.Node, e.Deleting, e.Owned = true, machine.Phase, machine.Node, machine.Deleting(), machine.Owner() != nil
	}
	for _, mhc := range snapshot.MachineHealthChecks {
		if mhc.Namespace != namespace {
			continue
		}
		state := newMachineCheck(mhc)
		check := CheckOfMachine{Name: mhc.Name, Held: state.Held}
		for i := range state.Machines {
			if state.Machines[i].Name == name {
				check.Target = &state.Machines[i]
			}
		}
		criteria := machinehealth.NewCriteria(mhc)
		if check.Target != nil || (machine != nil && criteria.Selects(machine)) {
			e.Checks = append(e.Checks, check)
		}
	}
	if machine == nil && len(e.Checks) == 0 {
		return nil
	}
	return e
}

// MachineNames returns the names of all Machines that MachineHealthChecks list, as namespace/name.
func MachineNames(snapshot *Snapshot) (names []string) {
	for _, mhc := range snapshot.MachineHealthChecks {
		for i := range mhc.Status.UnhealthyMachines {
			names = append(names, mhc.Namespace+"/"+mhc.Status.UnhealthyMachines[i].Name)
		}
	}
	return names
}
