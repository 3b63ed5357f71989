// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// MachineExplanation has everything that is known about one Machine.
type MachineExplanation struct {
	// Time is the instant at which it holds.
	Time      metav1.Time `json:"time"`
	Namespace string      `json:"namespace"`
	Machine   string      `json:"machine"`
	Leader    *Leader     `json:"leader,omitempty"`
	// Stopped says by which RemediationBudget everything is stopped, empty if nothing is.
	Stopped string `json:"stopped,omitempty"`
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

// CheckOfMachine is the Machine from the view of one MachineHealthCheck.
type CheckOfMachine struct {
	Name string `json:"name"`
	Held *Held  `json:"held,omitempty"`
	// Target is absent for a Machine that status does not list: it is healthy, as the controller says.
	Target *Target `json:"target,omitempty"`
}

// NewMachineExplanation explains a Machine, nil if it cannot be read. The result is nil if there is no such
// Machine, and no MachineHealthCheck lists one.
func NewMachineExplanation(namespace, name string, snapshot *Snapshot, machine *machinehealth.Machine, now time.Time) *MachineExplanation {
	e := &MachineExplanation{Time: metav1.NewTime(now), Namespace: namespace, Machine: name, Leader: snapshot.Leader, Stopped: Stop(snapshot.Budgets), Checks: []CheckOfMachine{}, Missing: snapshot.Missing}
	if machine != nil {
		e.Known, e.Phase, e.Node, e.Deleting, e.Owned = true, machine.Phase, machine.Node, machine.Deleting(), machine.Owner() != nil
	}
	for _, mhc := range snapshot.MachineHealthChecks {
		if mhc.Namespace != namespace {
			continue
		}
		check := CheckOfMachine{Name: mhc.Name, Held: heldMachines(mhc)}
		for i := range mhc.Status.UnhealthyMachines {
			if listed := &mhc.Status.UnhealthyMachines[i]; listed.Name == name {
				check.Target = new(newMachineTarget(listed))
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

// Print prints what is known about one Machine.
func (e *MachineExplanation) Print(printer *Printer) {
	now := e.Time.Time
	sections := Sections{Printer: printer}
	lines := [][]Cell{{{Text: "Machine " + e.Namespace + "/" + e.Machine, Style: Heading}}}
	say := func(style Style, text string) {
		lines = append(lines, []Cell{{Text: text, Style: style}})
	}
	if e.Stopped != "" {
		say(Bad, e.Stopped)
	}
	switch {
	case !e.Known:
		say(Warning, "It cannot be read, or is gone: this is what its MachineHealthChecks have reported.")
	case e.Deleting:
		say(Warning, "It is being deleted: kubectl get machines -n "+e.Namespace+" "+e.Machine+" -o yaml shows its finalizers.")
	}
	if e.Known {
		say(Plain, "Phase: "+cmp.Or(e.Phase, Unknown)+", node: "+cmp.Or(e.Node, "none"))
		if !e.Owned {
			say(Warning, "No controller owns it: if it is deleted, no other one replaces it.")
		}
		if len(e.Checks) == 0 {
			say(Bad, "No MachineHealthCheck of its namespace selects it, so none replaces it when it is unhealthy.")
		}
	}
	sections.Lines(lines)
	sections.problem(e.Leader, now)
	for i := range e.Checks {
		sections.Part(e.partOf(&e.Checks[i]))
	}
	if e.Node != "" {
		sections.Lines([][]Cell{{Text("kubectl nhc explain node " + e.Node + " shows the node.")}})
	}
	sections.Lines(Partial(e.Missing))
}

// partOf says what a MachineHealthCheck makes of the Machine.
func (e *MachineExplanation) partOf(check *CheckOfMachine) Part {
	now := e.Time.Time
	part := Part{Title: "MachineHealthCheck " + e.Namespace + "/" + check.Name}
	health, next := Cell{Text: "not reported as unhealthy", Style: Good}, "nothing, as long as the Machine is healthy"
	if target := check.Target; target != nil {
		health = Cell{Text: cmp.Or(triggerText(target.Trigger), "not healthy yet"), Style: Warning}
		if target.Detected != nil {
			health = Cell{Text: cmp.Or(triggerText(target.Trigger), "unhealthy") + " since " + SinceWhen(target.Detected, now), Style: Bad}
		}
		next = inTime(target.Decision, machineAdvice(target.Decision.Reason, check.Name, e), now)
	}
	part.Fields = append(part.Fields, Field{"Health", health})
	if check.Target != nil {
		part.Fields = append(part.Fields, Field{"Decision", decided(&check.Target.UnhealthyNode, now)})
	}
	if check.Held != nil {
		part.Fields = append(part.Fields, Field{"Nothing new begins", Cell{Text: Because(check.Held.Reason, check.Held.Message), Style: Bad}})
	}
	if e.Leader.Problem(now) != "" {
		next = "nothing, as long as no controller is at work"
	}
	if next != "" {
		part.Fields = append(part.Fields, Field{"Next", Text(next)})
	}
	return part
}
