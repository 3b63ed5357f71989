// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Denial is why the admission policy refuses a MachineHealthCheck that the schema accepts, empty if it does not: the
// controller cannot understand it, or has to guess what is meant (spec M3.3).
func Denial(mhc *machinev1beta1.MachineHealthCheck) string {
	limit := (*intstr.IntOrString)(mhc.Spec.MaxUnhealthy)
	_, annotated := mhc.Annotations[machinev1beta1.AnnotationRemediationStrategy]
	switch {
	case limit != nil && limit.Type == intstr.Int && limit.IntVal < 0:
		return "maxUnhealthy must not be negative: " + limit.String()
	case annotated && mhc.Spec.RemediationTemplate != nil:
		return "annotation " + machinev1beta1.AnnotationRemediationStrategy + " and remediationTemplate are mutually exclusive"
	}
	return machinehealth.NewCriteria(mhc).Problem
}

// MachineHealthCheck returns advice about one that admission accepts.
func MachineHealthCheck(mhc *machinev1beta1.MachineHealthCheck, facts *Facts) []Finding {
	var f findings
	criteria := machinehealth.NewCriteria(mhc)
	selected := machinesOf(mhc, facts)
	selector := &mhc.Spec.Selector
	if facts.MachinesKnown[criteria.API] && len(selected) == 0 {
		f.advise("spec.selector", "check namespace and labels with kubectl get machines."+criteria.API+" --show-labels", "No Machine of namespace %s has these labels", mhc.Namespace)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 && !criteria.OnlyTermination() {
		f.advise("spec.selector", "select workers only", "An empty selector selects all Machines of the namespace, those of the control plane, too")
	}
	members := len(slices.DeleteFunc(slices.Clone(selected), func(machine *machinehealth.Machine) bool { return !machine.ControlPlane() }))
	f.mixed("spec.selector", "Machine", members, len(selected))
	f.sharedMachines(mhc, selected, facts)
	if !criteria.OnlyTermination() {
		f.machineLimit(criteria.MaxUnhealthy, len(selected))
	}
	if startup := criteria.StartupTimeout; startup > 0 && startup < usualProvisioning {
		f.advise("spec.nodeStartupTimeout", `use at least as long as your provider needs; the default is 10m, and "0" turns the check off`, "A Machine that is still being provisioned has no Node after %s", startup)
	}
	if len(mhc.Spec.UnhealthyConditions) == 0 {
		f.advise("spec.unhealthyConditions", `add Ready with the statuses "False" and Unknown, and a timeout such as 300s`, "There are none: a Machine whose node is silent is never remediated, only one without Node")
	}
	happens := "A Machine is remediated"
	if criteria.Strategy == machinehealth.Delete {
		happens = "A Machine is deleted"
	}
	f.conditions(criteria.Conditions, "timeout", happens, nodesOf(selected, facts))
	if criteria.Template != nil {
		reference := *criteria.Template
		reference.Namespace = mhc.Namespace
		step := remediation.Step{Reference: reference}
		f.template("spec.remediationTemplate", []remediation.Step{step}, step, facts)
		if criteria.StartupTimeout > 0 && reference.Kind != deletingTemplate {
			f.advise("spec.remediationTemplate", `turn that check off with nodeStartupTimeout: "0", and have another MachineHealthCheck without template delete such Machines`,
				"A repair in place seldom helps a Machine that never joined, nor one that failed or lost its Node")
		}
	}
	return f
}

// deletingTemplate is the kind of template whose remediator deletes the Machine.
const deletingTemplate = "MachineDeletionRemediationTemplate"

// machinesOf returns the Machines that a MachineHealthCheck selects.
func machinesOf(mhc *machinev1beta1.MachineHealthCheck, facts *Facts) (selected []*machinehealth.Machine) {
	criteria := machinehealth.NewCriteria(mhc)
	for _, machine := range facts.Machines {
		if machine.Namespace == mhc.Namespace && criteria.Selects(machine) {
			selected = append(selected, machine)
		}
	}
	return selected
}

// nodesOf returns the Nodes of Machines.
func nodesOf(machines []*machinehealth.Machine, facts *Facts) (nodes []*corev1.Node) {
	for _, node := range facts.Nodes {
		if slices.ContainsFunc(machines, func(machine *machinehealth.Machine) bool { return machine.Node == node.Name }) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// sharedMachines judges whether other MachineHealthChecks select the same Machines (spec M7.4).
func (f *findings) sharedMachines(mhc *machinev1beta1.MachineHealthCheck, selected []*machinehealth.Machine, facts *Facts) {
	for _, other := range facts.MachineHealthChecks {
		if other.Namespace != mhc.Namespace || other.Name == mhc.Name {
			continue
		}
		if theirs := machinehealth.NewCriteria(other); theirs.OnlyTermination() {
			continue
		}
		var shared []string
		for _, machine := range machinesOf(other, facts) {
			if slices.Contains(selected, machine) {
				shared = append(shared, machine.Name)
			}
		}
		if len(shared) > 0 {
			f.advise("spec.selector", "make the selectors disjoint", "MachineHealthCheck %s selects %s of these, too (%s): nothing begins that one of the limits forbids",
				other.Name, view.Counted(len(shared), "Machine"), view.Some(shared, 3))
		}
	}
}

// machineLimit judges maxUnhealthy (spec M7). Selected is 0 if it is not known.
func (f *findings) machineLimit(limit intstr.IntOrString, selected int) {
	const field = "spec.maxUnhealthy"
	allowed := func(machines int) int {
		summary := machinehealth.Summarize(limit, make([]machinehealth.Verdict, machines), 0, time.Time{})
		return summary.Limit
	}
	switch {
	case allowed(largest) == 0:
		f.advise(field, "allow at least one Machine to be unhealthy", "With %s, no remediation ever begins", limit.String())
	case selected > 0 && allowed(selected) == 0:
		f.advise(field, "use a number", "It selects %s. %s of them, rounded down, is 0: no remediation ever begins", view.Counted(selected, "Machine"), limit.String())
	case limit.Type == intstr.String && allowed(largest) >= largest:
		f.advise(field, "lower it, so that a failure of what all Machines need does not remediate all of them", "With %s, which is the default, all Machines may be remediated at once", limit.String())
	case selected > 1 && allowed(selected) >= selected:
		f.advise(field, "use less", "It selects %s, and all of them may be remediated at once", view.Counted(selected, "Machine"))
	}
}
