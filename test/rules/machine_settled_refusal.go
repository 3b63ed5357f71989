// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// refusal says why the remediation of an unhealthy target need not begin, or "" (spec M8.2).
// RemediationBudgets come between the control plane and the back-off (spec M8.5).
func (s *machineCheck) refusal(t *machineTarget) v1alpha1.DecisionReason {
	deletion := s.mhc.deletes(t.Machine)
	switch {
	case s.mhc.broken:
		return v1alpha1.DecidedInvalidSpec
	case s.mhc.updates(t.Machine, t.node, s.now):
		return v1alpha1.DecidedClusterUpgrading
	case s.mhc.paused():
		return v1alpha1.DecidedPaused
	case !s.allowed():
		return v1alpha1.DecidedGateClosed
	case t.paused():
		return v1beta1.DecidedMachinePaused
	case t.Has(v1beta1.AnnotationSkipRemediation) || (t.node != nil && t.node.Labels[v1alpha1.LabelExclude] == "true"):
		return v1alpha1.DecidedExcluded
	case s.namedTwice(t.Machine):
		return v1beta1.DecidedAmbiguousNode
	case s.remediatedByOther(t.Machine) || slices.ContainsFunc(s.others, func(other *MHC) bool { return s.precedes(other, t) }):
		return v1beta1.DecidedOtherHealthCheck
	case deletion && t.Owner == "":
		return v1beta1.DecidedNoController
	case deletion && t.API == v1beta1.MachineAPICluster && t.ofControlPlane():
		return v1beta1.DecidedControlPlaneProvider
	case s.mhc.strategy() == byTemplate && s.templateMissing():
		return v1beta1.DecidedTemplateUnavailable
	default:
		return s.wait(t)
	}
}

// ofControlPlane reports whether a target is one of the control plane.
func (t *machineTarget) ofControlPlane() bool {
	return t.ControlPlane() || (t.node != nil && t.node.ControlPlane())
}

// wait says what the remediation of a target waits for that nothing else refuses, or "".
func (s *machineCheck) wait(t *machineTarget) v1alpha1.DecisionReason {
	controlPlane := t.ofControlPlane()
	switch {
	case controlPlane && s.slotTakenFrom(t.Machine):
		return v1alpha1.DecidedControlPlaneBusy
	case controlPlane && t.node != nil && !s.quorumWithout(t.Node):
		return v1alpha1.DecidedEtcdQuorum
	case s.budgetMayRefuse(slotName(t.Machine)):
		return v1alpha1.DecidedBudgetExhausted
	default:
		return s.waitAfterBudgets(t)
	}
}

// waitAfterBudgets is the same for the checks after the budgets.
func (s *machineCheck) waitAfterBudgets(t *machineTarget) v1alpha1.DecisionReason {
	switch {
	case s.mhc.deletes(t.Machine) && s.mayBackOff(t.Machine):
		return v1beta1.DecidedBackOff
	case s.mhc.strategy() == byTemplate && s.nameTaken(t.Machine):
		return v1alpha1.DecidedForeignRemediation
	case t.node != nil && s.leaseTakenFrom(t.Node, checkHolderPrefix+s.mhc.Key()):
		return v1alpha1.DecidedLeaseTaken
	default:
		return ""
	}
}

// namedTwice reports whether another Machine names the Node of this one (spec M5.4).
func (p *snapshot) namedTwice(machine *Machine) bool {
	for _, versions := range p.machines {
		other := versions.at(p.rv)
		if other != nil && machine.Node != "" && other.Node == machine.Node && other.UID != machine.UID && !other.Deleting {
			return true
		}
	}
	return false
}

// precedes reports whether another MachineHealthCheck, which comes first, keeps this one from a target (spec M7.4).
func (s *machineCheck) precedes(other *MHC, t *machineTarget) bool {
	switch {
	case !other.Selects(t.Machine):
		return false
	case other.forTermination() != s.mhc.forTermination():
		return s.mhc.forTermination() && s.mhc.criterion(t.Machine, t.node, s.now) != v1beta1.TriggerUnhealthyCondition
	}
	return other.Name < s.mhc.Name
}

// remediatedByOther reports whether another MachineHealthCheck has a CR for a Machine, whether or not it
// still selects the Machine.
func (s *machineCheck) remediatedByOther(machine *Machine) bool {
	for key := range s.crsOfMachine[machine.Key()] {
		cr := s.crs[key].at(s.rv)
		if cr != nil && len(cr.Checks) > 0 && !cr.CheckedBy(s.mhc.Key()) {
			return true
		}
	}
	return false
}

// hasFormerCR reports whether a Machine has a CR of a MachineHealthCheck that is gone, to which it refers no more. The
// process that has seen it begins nothing before it is gone. One that has started since does not know it (spec M7.4).
func (s *machineCheck) hasFormerCR(machine *Machine) bool {
	for key := range s.crsOfMachine[machine.Key()] {
		if cr := s.crs[key].at(s.rv); cr != nil && len(cr.Checks) == 0 && len(cr.FormerChecks) > 0 {
			return true
		}
	}
	return false
}

// templateMissing reports whether the template does not exist, or has no spec (spec M12.1).
func (s *machineCheck) templateMissing() bool {
	reference := s.mhc.Spec.RemediationTemplate
	template := s.templates[plural(reference.Kind)+" "+key(s.mhc.Namespace, reference.Name)].at(s.rv)
	return template == nil || !template.HasSpec
}

// nameTaken reports whether a CR of another owner has the name that a target needs (spec M12.4).
func (s *machineCheck) nameTaken(machine *Machine) bool {
	kind := strings.TrimSuffix(s.mhc.Spec.RemediationTemplate.Kind, "Template")
	cr := s.crs[plural(kind)+" "+machine.Key()].at(s.rv)
	return cr != nil && !cr.CheckedBy(s.mhc.Key())
}

// slotTakenFrom reports whether something else takes the slot of the control plane (spec M13.1).
// Of Machines that do, the first one by name may go on.
func (p *snapshot) slotTakenFrom(machine *Machine) bool {
	subject := slotName(machine)
	for _, versions := range p.crs {
		cr := versions.at(p.rv)
		switch {
		case cr == nil:
		case len(cr.Checks) > 0 && cr.ControlPlane && cr.Machine == machine.Key():
		case len(cr.Checks) > 0 && cr.ControlPlane && cr.Machine != "":
			return true
		case cr.Node != subject && p.slotOf(cr):
			return true
		}
	}
	members := p.machinesInSlot()
	slices.SortFunc(members, func(a, b *Machine) int {
		return cmp.Or(cmp.Compare(slotName(a), slotName(b)), cmp.Compare(a.Key(), b.Key()))
	})
	return len(members) > 0 && members[0].Key() != machine.Key()
}

// slotOf reports whether a CR takes the slot (spec 12.2).
func (p *snapshot) slotOf(cr *CR) bool {
	node := p.nodes[cr.Node].at(p.rv)
	return cr.ControlPlane || (node != nil && node.ControlPlane())
}
