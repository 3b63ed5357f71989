// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// ClaimOf returns the MachineHealthCheck that a Node belongs to, because it selects the Machine of
// the Node, and nothing if there is none. One that only replaces Machines that terminate claims no
// Node (spec M15).
func (c *Controller) ClaimOf(node string) string {
	if !c.Active() {
		return ""
	}
	for _, machine := range c.machinesOf(node) {
		checks, _ := c.checks.MachineHealthChecks(machine.Namespace).List(labels.Everything()) // A cache in memory has no errors.
		var names []string
		for _, check := range checks {
			if criteria := c.criteriaOf(check); criteria.Selects(machine) && !criteria.OnlyTermination() {
				names = append(names, check.Namespace+"/"+check.Name)
			}
		}
		if len(names) > 0 {
			return slices.Min(names) // Not the next one by chance.
		}
	}
	return ""
}

// slotName returns the name under which a Machine takes the control plane slot: that of its Node, as
// NodeHealthChecks know it, or its own.
func slotName(machine *machinehealth.Machine) string {
	if machine.Node != "" {
		return machine.Node
	}
	return machineName(machine.Namespace, machine.Name)
}

// machineName returns what stands for the Node of a Machine without one. No Node has such a name.
func machineName(namespace, name string) string { return "Machine " + namespace + "/" + name }

// ControlPlaneOccupants returns the control plane Machines whose remediation keeps another one, or a
// control plane node, from being remediated: those that are being deleted, remediated by another
// controller, or without a Node. The first of them by name may itself be remediated (spec M13.1).
func (c *Controller) ControlPlaneOccupants(subject string) []string {
	if !c.Active() {
		return nil
	}
	var machines []*machinehealth.Machine
	for _, kind := range machineKinds {
		indexer, cached := c.machines.Caches()[kind]
		if !cached {
			continue
		}
		for _, obj := range indexer.List() {
			machines = append(machines, obj.(*machinehealth.Machine))
		}
	}
	return c.occupants(machines, subject)
}

// ListControlPlaneOccupants returns the same from a live list.
func (c *Controller) ListControlPlaneOccupants(ctx context.Context, subject string) ([]string, error) {
	if !c.Active() {
		return nil, nil
	}
	var machines []*machinehealth.Machine
	for _, kind := range machineKinds {
		mapping, err := c.machines.Mapping(kind)
		if mapping == nil {
			if err == nil || isNoMatch(err) || kind.Group == v1beta1.MachineAPICluster {
				continue // Not served, or not wanted by any MachineHealthCheck.
			}
			return nil, err
		}
		options := metav1.ListOptions{Limit: slotPageSize}
		for {
			page, err := c.Dynamic.Resource(mapping.Resource).List(ctx, options)
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", mapping.Resource.GroupResource(), err)
			}
			for i := range page.Items {
				machines = append(machines, machinehealth.ParseMachine(&page.Items[i]))
			}
			if options.Continue = page.GetContinue(); options.Continue == "" {
				break
			}
		}
	}
	return c.occupants(machines, subject), nil
}

// slotPageSize is how many Machines are listed at once.
const slotPageSize = 500

// occupants returns those of the Machines that take the slot from a subject.
func (c *Controller) occupants(machines []*machinehealth.Machine, subject string) []string {
	var names []string
	for _, machine := range machines {
		node := c.node(machine.Node)
		if !c.ofThisCluster(machine) || (!machine.ControlPlane() && !isControlPlane(node)) {
			continue
		}
		if machine.Deleting() || machine.Has(v1beta1.AnnotationExternalRemediation) || machine.Node == "" || c.missing.has(machine.Node) {
			names = append(names, slotName(machine))
		}
	}
	names = append(names, c.controlPlaneCRs()...)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 0 && names[0] == subject {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == subject })
}

// controlPlaneCRs returns under which names the CRs of control plane Machines take the slot.
func (c *Controller) controlPlaneCRs() (names []string) {
	for _, indexer := range c.remediations.Caches() {
		crs, _ := indexer.ByIndex(crsByControlPlane, controlPlaneLabel) // The index exists: crIndexers has it.
		for _, obj := range crs {
			cr := obj.(*object.CR)
			if len(ownersOf(cr)) == 0 {
				continue // Those of NodeHealthChecks are looked at by their controller.
			}
			if node, named := cr.Annotations[v1alpha1.AnnotationNodeName]; named {
				names = append(names, node)
			} else {
				names = append(names, machineName(cr.Namespace, cr.Name))
			}
		}
	}
	return names
}

// controlPlaneBusy reports whether the caches show that another control plane Machine or node is
// under remediation, or do not show it.
func (c *Controller) controlPlaneBusy(machine *machinehealth.Machine) bool {
	subject := slotName(machine)
	taken, known := c.nodeHealthChecks.ControlPlaneTaken()
	return !known || slices.ContainsFunc(taken, func(node string) bool { return node != subject }) || len(c.ControlPlaneOccupants(subject)) > 0
}
