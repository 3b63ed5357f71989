// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// calm takes away what keeps Machines from being remediated, except some thresholds. From now on
// the consumer does nothing, and all new Machines get a Node.
func (m *machineAPI) calm() {
	m.reliable, m.idle = true, true
	m.enableGate()
	m.server.Delete("other", leases, otherLeader)
	m.disturb("other controller", 8*time.Second)
	for _, f := range m.fates {
		f.fails = time.Time{}
		if f.joins.IsZero() {
			f.joins = time.Now()
		}
	}
	for _, name := range m.mhcNames() {
		if m.mhc(name).DeletionTimestamp != nil {
			m.deleteMHC(name)
			continue
		}
		m.changeMHC(name, func(mhc *v1beta1.MachineHealthCheck) {
			delete(mhc.Annotations, v1beta1.AnnotationPaused)
			if m.chance(70) {
				mhc.Spec.MaxUnhealthy = (*v1beta1.IntOrString)(new(intstr.FromString("100%")))
			}
			if len(mhc.Spec.UnhealthyConditions) > 1 {
				m.randomConditions(mhc)
			}
			if value := mhc.Annotations[v1beta1.AnnotationRemediationStrategy]; value != v1beta1.StrategyExternalBaremetal {
				delete(mhc.Annotations, v1beta1.AnnotationRemediationStrategy)
			}
		})
	}
	for _, name := range m.machineNames() {
		m.changeMachine("user", name, func(machine *unstructured.Unstructured) {
			unstructured.RemoveNestedField(machine.Object, "metadata", "annotations", v1beta1.AnnotationPaused)
			unstructured.RemoveNestedField(machine.Object, "metadata", "annotations", v1beta1.AnnotationSkipRemediation)
		})
	}
}

// cure ends what no controller ends: the consumer goes on, and users delete Machines that have
// no owner or share a Node.
func (m *machineAPI) cure() {
	m.idle = false
	for _, machine := range m.server.List(m.gvr()) {
		node := nodeOf(machine)
		if len(machine.GetOwnerReferences()) == 0 || (node != "" && len(m.naming(node)) > 1) || phaseOf(machine) == "Failed" || (node != "" && m.node(node) == nil) {
			m.server.Delete("user", m.gvr(), machineKey(machine.GetName()))
			m.sleep(time.Second)
		}
	}
	for range 60 {
		m.sleep(20 * time.Second)
	}
	for _, name := range m.nodeNames() {
		m.heal(name)
	}
}
