// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestRemediationOfAGoneCheck: while a remediation object is left of a MachineHealthCheck that is gone,
// no other one begins anything for the Machine; then it does, and the kind is watched no more (spec
// M7.4, M3.5).
func TestRemediationOfAGoneCheck(t *testing.T) {
	t.Parallel()
	for name, dropped := range map[string]bool{"it refers to the one that is gone": false, "garbage collection was first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				kind := &m.kinds[0]
				template := m.references()[0]
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &template })
				m.addMHC("north", "a", asItIs)
				m.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(30*time.Second + inTime)
				require.NotNil(t, m.server.Get(kind.crs(), machineKey(machine)), "east comes first")
				setFinalizers := func(finalizers ...string) {
					m.server.Modify("remediator", kind.crs(), machineKey(machine), func(object *unstructured.Unstructured) { object.SetFinalizers(finalizers) })
				}
				setFinalizers(finalizer)

				m.server.Delete("user", mhcs, machineKey("east"))
				if dropped {
					m.server.Modify("garbage-collector", kind.crs(), machineKey(machine), dropCheck)
				}
				m.sleep(inTime)
				require.NotNil(t, m.server.Get(kind.crs(), machineKey(machine)).GetDeletionTimestamp(), "M3.5: its CRs are deleted")
				m.sleep(20 * time.Minute)
				require.False(t, m.deleting(machine), "M7.4: the remediator is still at work")
				require.Equal(t, v1beta1.DecidedOtherHealthCheck, m.decision("north", machine))

				setFinalizers()
				m.sleep(inTime)
				require.True(t, m.deleting(machine), "M7.4: it is done")
				require.False(t, m.watches(kind), "nothing is watched for a MachineHealthCheck that is gone")
			})
		})
	}
}

// TestRecreatedCheck: the remediation objects of a MachineHealthCheck that is deleted and created again before
// the controller looks are deleted: garbage collection removes their reference to it, and then nothing would show
// whose they are (spec M3.5).
func TestRecreatedCheck(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"with the same template": true, "with another strategy": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				kind, template := &m.kinds[0], m.references()[0]
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				byTemplate := func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &template }
				m.addMHC("east", "a", byTemplate)
				m.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(30*time.Second + inTime)
				cr := m.server.Get(kind.crs(), machineKey(machine))
				require.NotNil(t, cr)

				m.disturb("a lost watch", 10*time.Second)
				m.leader().client.EndWatches(mhcs, true)
				m.server.Delete("user", mhcs, machineKey("east"))
				m.addMHC("east", "a", map[bool]func(*v1beta1.MachineHealthCheck){true: byTemplate, false: asItIs}[same])
				m.sleep(100 * time.Millisecond)
				if !same {
					m.server.Modify("garbage-collector", kind.crs(), machineKey(machine), dropCheck)
				}
				m.sleep(10 * time.Second)
				left := m.server.Get(kind.crs(), machineKey(machine))
				require.Equal(t, same, left != nil, "M3.5")
				if same {
					require.NotEqual(t, cr.GetUID(), left.GetUID(), "M3.5: it begins anew")
					require.Equal(t, v1alpha1.DecidedStepRunning, m.decision("east", machine))
				}
				m.setReady("worker-0", corev1.ConditionTrue)
				m.sleep(inTime)
				require.Nil(t, m.server.Get(kind.crs(), machineKey(machine)), "M12.5: nothing is left")
			})
		})
	}
}

// TestRecreatedAtItsEnd: a MachineHealthCheck that is created again while the controller ends what it had is
// a new one, which begins anew, and whose kinds are watched (spec M3.5, M19.1).
func TestRecreatedAtItsEnd(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		kind, byTemplate := &m.kinds[0], func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &m.references()[0] }
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", byTemplate)
		m.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(30*time.Second + inTime)
		before := m.server.Get(kind.crs(), machineKey(machine))
		require.NotNil(t, before)

		m.server.Delete("user", mhcs, machineKey("east"))
		m.sleep(time.Millisecond)
		require.NotNil(t, m.server.Get(kind.crs(), machineKey(machine)), "the request to delete it is under way")
		m.addMHC("east", "a", byTemplate)
		m.sleep(inTime)
		after := m.server.Get(kind.crs(), machineKey(machine))
		require.NotNil(t, after)
		require.NotEqual(t, before.GetUID(), after.GetUID(), "M3.5: that of the former one is gone")
		require.Equal(t, v1alpha1.DecidedStepRunning, m.decision("east", machine))
	})
}
