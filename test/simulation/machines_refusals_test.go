// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// update has the machine configuration of a Node be changed.
func (m *machineAPI) update(node string) {
	m.changeNode(node, func(object *unstructured.Unstructured) {
		setEntry(object, "annotations", remediation.AnnotationCurrentConfig, "rendered-1")
		setEntry(object, "annotations", remediation.AnnotationDesiredConfig, "rendered-2")
	})
}

// TestNodeIsUpdated: the update of the machine configuration of one Node holds its own Machine and no other, and not
// for longer than a reboot may take (spec M9.1). F4: it held all Machines for good.
func TestNodeIsUpdated(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		set := m.newSet("workers", "worker")
		updated, other := m.addMachine(set, "a", "worker-0"), m.addMachine(set, "a", "worker-1")
		m.addMHC("east", "a", asItIs)
		m.update("worker-0")
		m.setReady("worker-0", corev1.ConditionUnknown)
		m.setReady("worker-1", corev1.ConditionUnknown)
		m.sleep(30*time.Second + inTime)
		require.True(t, m.deleting(other), "M9.1: its Node is not updated")
		require.False(t, m.deleting(updated))
		entry := m.mhc("east").Status.UnhealthyMachines
		require.Equal(t, updated, entry[len(entry)-1].Name)
		decision := entry[len(entry)-1].Decision
		require.Equal(t, v1alpha1.DecidedClusterUpgrading, decision.Reason)
		require.Equal(t, remediation.Updating, decision.Message)
		require.NotNil(t, decision.NextCheckTime, "M9.1: the end of it is said")
		m.sleep(time.Until(decision.NextCheckTime.Time) - time.Second)
		require.False(t, m.deleting(updated))
		m.sleep(time.Second + inTime)
		require.True(t, m.deleting(updated), "M9.1: it has not come back from its reboot")
	})
}

// TestUpdateOfANodeEnds: the Machine is remediated as soon as the update of its Node has ended (spec M9.1, M19.1).
func TestUpdateOfANodeEnds(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", asItIs)
		m.update("worker-0")
		m.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(time.Minute)
		require.Equal(t, v1alpha1.DecidedClusterUpgrading, m.decision("east", machine))
		m.changeNode("worker-0", func(object *unstructured.Unstructured) {
			setEntry(object, "annotations", remediation.AnnotationCurrentConfig, "rendered-2")
		})
		m.sleep(inTime)
		require.True(t, m.deleting(machine))
	})
}

// TestPowerlessKeepsNoOther: a MachineHealthCheck that cannot act on a Machine at all does not keep another from it,
// neither by its name nor by its threshold (spec M7.4). F7: it did.
func TestPowerlessKeepsNoOther(t *testing.T) {
	t.Parallel()
	ownerless := func(m *machineAPI, machine string) {
		m.changeMachine("user", machine, func(object *unstructured.Unstructured) { object.SetOwnerReferences(nil) })
	}
	strict := func(mhc *v1beta1.MachineHealthCheck) {
		mhc.Spec.MaxUnhealthy = (*v1beta1.IntOrString)(new(intstr.FromInt32(0)))
	}
	missing := func(mhc *v1beta1.MachineHealthCheck) {
		mhc.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: remediators.String(), Kind: "NoSuchTemplate", Name: "none"}
	}
	for name, tc := range map[string]struct {
		first  func(*v1beta1.MachineHealthCheck)
		change func(m *machineAPI, machine string)
		// template means that the other one remediates by a remediation object.
		template bool
		// apis are those whose Machines it is about, all if there are none.
		apis []*apiOfMachines
	}{
		"F7 only its provider deletes the Machine": {first: asItIs, template: true, apis: []*apiOfMachines{ofClusterAPI}, change: func(m *machineAPI, machine string) {
			m.changeMachine("user", machine, func(object *unstructured.Unstructured) { setEntry(object, "labels", v1beta1.LabelControlPlane, "") })
			for _, node := range []string{"master-1", "master-2"} { // Enough for a quorum.
				m.addMachine(m.newSet("masters", "master"), "c", node)
			}
		}},
		"nothing would replace the Machine": {first: asItIs, change: ownerless, template: true},
		"nothing would, and it is strict":   {first: strict, change: ownerless, template: true},
		"its template is missing":           {first: missing},
		"it is missing, and it is strict":   {first: func(mhc *v1beta1.MachineHealthCheck) { missing(mhc); strict(mhc) }},
		"it is paused, and strict": {first: func(mhc *v1beta1.MachineHealthCheck) {
			mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
			strict(mhc)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apis := tc.apis
			if len(apis) == 0 {
				apis = machineAPIs
			}
			withMachinesOf(t, apis, func(t *testing.T, m *machineAPI) {
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				if tc.change != nil {
					tc.change(m, machine)
				}
				m.addMHC("all", "a", tc.first)
				m.addMHC("another", "a", func(mhc *v1beta1.MachineHealthCheck) {
					if tc.template {
						mhc.Spec.RemediationTemplate = &m.references()[0]
					}
				})
				m.sleep(20 * time.Second)
				m.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(30*time.Second + inTime)
				begun := m.deleting(machine) || m.server.Get(m.kinds[0].crs(), machineKey(machine)) != nil
				require.True(t, begun, "M7.4: %s", m.decision("another", machine))
			})
		})
	}
}
