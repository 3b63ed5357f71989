// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// memberOf returns the Machine as a member that takes the control plane slot.
func memberOf(machine *machinehealth.Machine) slot.Member {
	return slot.Member{Machine: memberName(machine.API(), machine.Namespace, machine.Name), Node: machine.Node}
}

// memberName identifies a Machine. Both APIs may have a Machine of that name.
func memberName(api, namespace, name string) string { return api + "/" + namespace + "/" + name }

// slotHolder is something that takes the control plane slot.
type slotHolder struct {
	slot.Member
	// name is what messages call it, and cause says why it takes the slot.
	name, cause string
}

// ControlPlaneSlotHolders returns the control plane Machines that keep another control plane Machine or
// node from being remediated. They are being deleted, another controller remediates them, or they have no
// Node. The first of them by name may itself be remediated, unless another one has a remediation object
// (spec M13.1).
func (c *Controller) ControlPlaneSlotHolders(subject slot.Member) []string {
	return namesOf(c.cachedSlotHolders(subject))
}

// cachedSlotHolders returns the slot holders that take the slot from a subject, as the
// caches show them.
func (c *Controller) cachedSlotHolders(subject slot.Member) []slotHolder {
	if !c.Active() {
		return nil
	}
	var machines []*machinehealth.Machine
	for indexer := range c.machineCaches {
		for _, obj := range indexer.List() {
			machines = append(machines, obj.(*machinehealth.Machine))
		}
	}
	found, _ := c.slotHolders(machines, func(node string) (bool, error) { return c.isMissing(node), nil })
	var remediated []slotHolder
	for _, indexer := range c.Remediations.Caches() {
		for _, cr := range watches.Indexed[*object.CR](indexer, crsByControlPlane, controlPlaneLabel) {
			remediated = append(remediated, slotHoldersOf(cr)...)
		}
	}
	return others(found, remediated, subject)
}

// others returns the slot holders that take the slot from a subject, by name, each once. The first one of
// awaited may itself be remediated, unless another one has a remediation object.
func others(awaited, remediated []slotHolder, subject slot.Member) []slotHolder {
	byName := func(a, b slotHolder) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.cause, b.cause))
	}
	slotHolders := remediated
	if len(awaited) > 0 && !slices.MinFunc(awaited, byName).Same(subject) {
		slotHolders = append(slotHolders, awaited...)
	}
	slotHolders = slices.DeleteFunc(slotHolders, func(o slotHolder) bool { return o.Same(subject) })
	slices.SortFunc(slotHolders, byName)
	return slices.CompactFunc(slotHolders, func(a, b slotHolder) bool { return a.name == b.name })
}

func namesOf(holders []slotHolder) (names []string) {
	for _, holder := range holders {
		names = append(names, holder.name)
	}
	return names
}

// slotHolders returns the Machines that take the slot. missing reports whether a Node is known to be gone. It is only
// asked about the Nodes of Machines that a MachineHealthCheck selects and that take the slot for no other reason.
func (c *Controller) slotHolders(machines []*machinehealth.Machine, missing func(node string) (bool, error)) (found []slotHolder, _ error) {
	for _, machine := range machines {
		if !c.ofControlPlane(machine) {
			continue
		}
		var cause string
		switch name := machine.Namespace + "/" + machine.Name; {
		case machine.Deleting():
			cause = "Machine " + name + " is being deleted"
		case machine.Has(v1beta1.AnnotationExternalRemediation):
			cause = "Machine " + name + " has annotation " + v1beta1.AnnotationExternalRemediation
		case machine.Node == "":
			cause = "Machine " + name + " has no Node yet"
		case len(c.selecting(machine)) == 0:
			continue
		default:
			gone, err := missing(machine.Node)
			if err != nil {
				return nil, err
			}
			if !gone {
				continue
			}
			cause = "Node " + machine.Node + " of Machine " + name + " does not exist"
		}
		found = append(found, slotHolder{memberOf(machine), machine.SlotName(), cause})
	}
	return found, nil
}

// ofControlPlane reports whether a Machine is one of the control plane of this cluster.
func (c *Controller) ofControlPlane(machine *machinehealth.Machine) bool {
	return (machine.ControlPlane() || c.NodeCache.HasControlPlane(machine.Node)) && c.ofThisCluster(machine)
}

// slotHoldersOf returns the name under which a remediation object of a control plane Machine takes the
// slot, also if its MachineHealthCheck was deleted and has left it behind. Objects of NodeHealthChecks
// count here and in their controller. That changes nothing, because the name is the same.
func slotHoldersOf(cr *object.CR) []slotHolder {
	node, named := cr.Annotations[v1alpha1.AnnotationNodeName]
	if !cr.ControlPlane() || (!named && len(ownersOf(cr)) == 0) {
		return nil
	}
	name, member := node, slot.Member{Node: node}
	if !named {
		name = machinehealth.SlotName(cr.Namespace, cr.Name)
	}
	if len(ownersOf(cr)) > 0 { // It has the name of its Machine.
		member.Machine = memberName(machineAPIOf(cr), cr.Namespace, cr.Name)
	}
	return []slotHolder{{member, name, "There is a remediation object, " + cr.Kind + " " + cr.Namespace + "/" + cr.Name}}
}

// machineAPIOf returns the API of the Machine that owns a CR, and OpenShift's if no Machine owns it
// any more.
func machineAPIOf(cr *object.CR) string {
	for i := range cr.OwnerReferences {
		reference := &cr.OwnerReferences[i]
		if group := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).Group; machineKinds[group].Kind == reference.Kind {
			return group
		}
	}
	return v1beta1.MachineAPIOpenShift
}

// slotTaken returns why the remediation of a control plane Machine must not begin by the caches: another
// control plane Machine or node is under remediation, or that is not known: then what status says stays. It
// returns nil if it may begin.
func (c *Controller) slotTaken(machine *machinehealth.Machine, listed *v1beta1.UnhealthyMachine) *remediation.Withholding {
	subject := memberOf(machine)
	busy := &remediation.Withholding{Reason: v1alpha1.DecidedControlPlaneBusy}
	taken, known := c.nodeHealthChecks.ControlPlaneTaken()
	if taken = slices.DeleteFunc(taken, func(node string) bool { return slot.Member{Node: node}.Same(subject) }); len(taken) > 0 {
		busy.Message = "Node " + slices.Min(taken) + " has a remediation object. " + oneAtATime
		return busy
	}
	slotHolders := c.cachedSlotHolders(subject)
	switch {
	case len(slotHolders) > 0:
		busy.Message = slotHolders[0].cause + ". " + oneAtATime
	case known:
		return nil
	case listed != nil && listed.Decision.Reason == busy.Reason:
		busy.Message = listed.Decision.Message
	}
	return busy
}

const oneAtATime = "One control plane Machine or Node is remediated at a time"
