// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// TestSlotTakenUnseen: what takes the control plane slot is looked at live before a control plane Machine
// is remediated: a cache may lag behind, in particular that of a new process (spec M13.1).
func TestSlotTakenUnseen(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		template bool
		take     func(m *machineAPI)
	}{
		"a Node that is gone, and the watch is late": {take: func(m *machineAPI) {
			m.beginLag(nodes, time.Minute)
			m.deleteNode("master-1")
		}},
		"a Node that is gone, and a new process has a stale list": {take: func(m *machineAPI) {
			m.deleteNode("master-1")
			m.sleep(time.Second)
			m.replaceBlindly(nodes)
		}},
		"a remediation object, and the watch is late": {template: true, take: func(m *machineAPI) {
			m.beginLag(m.kinds[0].crs(), time.Minute)
			m.setReady("master-1", corev1.ConditionUnknown)
			m.sleep(30*time.Second + inTime)
			require.Len(m.t, m.server.List(m.kinds[0].crs()), 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachinesOf(t, replacingControlPlane, func(t *testing.T, m *machineAPI) {
				set := m.newSet("masters", "master")
				failed, other := m.addMachine(set, "a", "master-0"), m.addMachine(set, "b", "master-1")
				for _, node := range []string{"master-2", "master-3", "master-4"} { // Enough for a quorum without two.
					m.addMachine(set, "c", node)
				}
				m.addMHC("east", "a", asItIs)
				template := m.references()[0]
				m.addMHC("north", "b", func(mhc *v1beta1.MachineHealthCheck) {
					if mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}; tc.template {
						mhc.Annotations, mhc.Spec.RemediationTemplate = nil, &template
					}
				})
				m.sleep(2 * time.Minute)
				tc.take(m)
				m.fail(failed)
				m.sleep(inTime)
				require.False(t, m.deleting(failed), "M13.1: another one takes the slot")
				require.False(t, m.deleting(other))
				require.Equal(t, v1alpha1.DecidedControlPlaneBusy, m.decision("east", failed))
			})
		})
	}
}

// replaceBlindly has the leader die and another process follow, whose caches show a resource as it was a
// minute ago.
func (m *machineAPI) replaceBlindly(gvr schema.GroupVersionResource) {
	m.server.DisableWatchLists()
	m.loseLeader()
	setStale := func(by time.Duration) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.staleBy = by
	}
	m.beginLag(gvr, time.Minute)
	setStale(time.Minute)
	m.elect()
	m.sleep(100 * time.Millisecond)
	setStale(0)
}

// TestSlotLeavesWithItsCheck: a Machine whose Node is missing takes the slot only as long as a MachineHealthCheck selects
// it (spec M13.1). S18: it kept the slot after that one was gone.
func TestSlotLeavesWithItsCheck(t *testing.T) {
	t.Parallel()
	withMachinesOf(t, replacingControlPlane, func(t *testing.T, m *machineAPI) {
		set := m.newSet("masters", "master")
		m.addMachine(set, "a", "master-0")
		waiting := m.addMachine(set, "b", "master-1")
		for _, node := range []string{"master-2", "master-3", "master-4"} {
			m.addMachine(set, "c", node)
		}
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) {
			mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
		})
		m.addMHC("west", "b", asItIs)
		m.server.Delete("user", nodes, memapi.Key{Name: "master-0"})
		m.setReady("master-1", corev1.ConditionUnknown)
		m.sleep(time.Minute)
		require.Equal(t, v1alpha1.DecidedControlPlaneBusy, m.decision("west", waiting))
		m.server.Delete("user", mhcs, machineKey("east"))
		m.sleep(inTime)
		require.True(t, m.deleting(waiting))
	})
}

// TestDeletedMachineLeavesSlot: a control plane Machine that is gone takes the slot no longer, and its
// replacement takes it until it has a Node (spec M13.1).
func TestDeletedMachineLeavesSlot(t *testing.T) {
	t.Parallel()
	for name, replaced := range map[string]bool{"nothing replaces it": false, "its replacement has no Node yet": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachinesOf(t, replacingControlPlane, func(t *testing.T, m *machineAPI) {
				set := m.newSet("masters", "master") // It replaces nothing by itself.
				deleted, waiting := m.addMachine(set, "a", "master-0"), m.addMachine(set, "a", "master-1")
				for _, node := range []string{"master-2", "master-3", "master-4"} {
					m.addMachine(set, "c", node)
				}
				for _, machine := range []string{deleted, waiting} {
					m.fates[m.machine(machine).GetUID()].lingers = 20 * time.Second
				}
				m.addMHC("east", "a", asItIs)
				m.setReady("master-0", corev1.ConditionUnknown)
				m.setReady("master-1", corev1.ConditionUnknown)
				m.sleep(30*time.Second + inTime)
				if m.deleting(waiting) {
					deleted, waiting = waiting, deleted
				}
				require.True(t, m.deleting(deleted))
				require.Equal(t, v1alpha1.DecidedControlPlaneBusy, m.decision("east", waiting))
				replacement := ""
				if replaced {
					replacement = m.addMachine(set, "b", "") // ControlPlaneMachineSet makes it at the deletion.
				}
				m.sleep(20*time.Second + inTime)
				require.Nil(t, m.machine(deleted))
				require.Equal(t, !replaced, m.deleting(waiting))
				if replaced {
					m.join(replacement, "master-9")
					m.sleep(inTime)
				}
				require.True(t, m.deleting(waiting))
			})
		})
	}
}
