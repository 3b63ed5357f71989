// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
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
			withMachines(t, func(t *testing.T, m *machineAPI) {
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
	m.leader().die(m.ctx)
	m.replicas = nil
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

// TestSlotAwaitsReplacement: a control plane Machine that was deleted keeps the slot until its replacement
// has joined, also if its owner makes that only when the Machine is gone, but not for ever (spec M13.4).
func TestSlotAwaitsReplacement(t *testing.T) {
	t.Parallel()
	waits := func(t *testing.T, m *machineAPI, waiting string) {
		t.Helper()
		require.False(t, m.deleting(waiting), "M13.4: there is no replacement yet")
		require.Equal(t, v1alpha1.DecidedControlPlaneBusy, m.decision("east", waiting))
	}
	for name, end := range map[string]func(t *testing.T, m *machineAPI, set *machineSet, waiting string){
		"the replacement joins": func(t *testing.T, m *machineAPI, set *machineSet, waiting string) {
			m.sleep(10 * time.Minute)
			replacement := m.addMachine(set, "b", "") // Which east does not select.
			m.changeMachine("user", replacement, func(machine *unstructured.Unstructured) { setEntry(machine, "labels", v1beta1.LabelRole, "worker") })
			m.sleep(10 * time.Second)
			waits(t, m, waiting)
			m.join(replacement, "master-9")
		},
		"no replacement comes": func(t *testing.T, m *machineAPI, _ *machineSet, waiting string) {
			m.sleep(28 * time.Minute)
			waits(t, m, waiting)
			m.sleep(2 * time.Minute)
		},
		"the replacement joins while another process leads": func(t *testing.T, m *machineAPI, set *machineSet, waiting string) {
			m.replaceLeader()
			m.sleep(10 * time.Minute)
			waits(t, m, waiting)
			m.join(m.addMachine(set, "a", ""), "master-9")
		},
		"its MachineHealthCheck is gone": func(_ *testing.T, m *machineAPI, _ *machineSet, _ string) {
			m.addMHC("north", "a", asItIs)
			m.sleep(time.Minute)
			m.server.Delete("user", mhcs, machineKey("east"))
		},
		"its MachineHealthCheck is gone, but for a remediation object": func(t *testing.T, m *machineAPI, _ *machineSet, _ string) {
			t.Helper()
			worker, kind := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0"), &m.kinds[0]
			m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &m.references()[0] })
			m.addMHC("north", "a", asItIs)
			m.setReady("worker-0", corev1.ConditionUnknown)
			m.sleep(30*time.Second + inTime)
			m.server.Modify("remediator", kind.crs(), machineKey(worker), func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.com/busy"}) })
			m.server.Delete("user", mhcs, machineKey("east"))
			m.sleep(inTime)
			require.NotNil(t, m.server.Get(kind.crs(), machineKey(worker)).GetDeletionTimestamp())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				set := m.newSet("masters", "master") // It replaces nothing by itself.
				first, second := m.addMachine(set, "a", "master-0"), m.addMachine(set, "a", "master-1")
				for _, node := range []string{"master-2", "master-3", "master-4"} {
					m.addMachine(set, "c", node)
				}
				m.fates[m.machine(first).GetUID()].lingers, m.fates[m.machine(second).GetUID()].lingers = 0, 0
				m.addMHC("east", "a", asItIs)
				m.setReady("master-0", corev1.ConditionUnknown)
				m.setReady("master-1", corev1.ConditionUnknown)
				m.sleep(30*time.Second + inTime)
				deleted, waiting := first, second
				if m.deleting(second) {
					deleted, waiting = second, first
				}
				require.True(t, m.deleting(deleted))
				m.sleep(30 * time.Second)
				require.Nil(t, m.machine(deleted))
				waits(t, m, waiting)
				end(t, m, set, waiting)
				m.sleep(inTime)
				require.True(t, m.deleting(waiting), "M13.4: the slot is free")
			})
		})
	}
}

// TestMachineReadyUnseen: a control plane Machine whose Node is Ready again is not deleted, although the cache does
// not show that yet: the member of etcd may be working (spec M13.2, 12.5).
func TestMachineReadyUnseen(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		machine := m.addMachine(m.newSet("masters", "master"), "a", "master-0")
		m.fail(machine)
		m.addMHC("east", "a", asItIs)
		m.sleep(inTime)
		require.Equal(t, v1alpha1.DecidedEtcdQuorum, m.decision("east", machine))
		m.beginLag(nodes, 5*time.Second)
		m.setReady("master-0", corev1.ConditionUnknown)
		m.sleep(2 * time.Second)
		m.setReady("master-0", corev1.ConditionTrue)
		m.sleep(10 * time.Second)
		m.endLag()
		require.False(t, m.deleting(machine))
	})
}
