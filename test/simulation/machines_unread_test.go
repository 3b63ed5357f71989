// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// TestRemediationsUnread: a new process begins nothing for a Machine before it knows whether another
// MachineHealthCheck is at work on it (spec M7.4).
func TestRemediationsUnread(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("first", "a", func(mhc *v1beta1.MachineHealthCheck) {
			mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
		})
		m.addMHC("second", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &c.references()[0] })
		c.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(time.Minute)
		require.Len(t, c.crs(), 1)
		m.changeMHC("first", func(mhc *v1beta1.MachineHealthCheck) { delete(mhc.Annotations, v1beta1.AnnotationPaused) })
		m.sleep(time.Minute)
		require.Equal(t, v1beta1.DecidedOtherHealthCheck, m.decision("first", machine))
		c.leader().die(c.ctx)
		c.replicas = nil
		c.slow = map[string]time.Duration{c.kinds[0].crs().Resource: 5 * time.Second}
		m.sleep(time.Minute)
		require.False(t, m.deleting(machine))
		require.Equal(t, v1beta1.DecidedOtherHealthCheck, m.decision("first", machine))
	})
}

// TestDeletedBeforeShown: the CR of a MachineHealthCheck that is deleted goes, also if no cache shows it by
// then (spec M3.5).
func TestDeletedBeforeShown(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &c.references()[0] })
		m.sleep(inTime)
		c.beginLag(c.kinds[0].crs(), 5*time.Second)
		c.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(31 * time.Second)
		require.Len(t, c.crs(), 1)
		c.server.Delete("user", mhcs, machineKey("east"))
		m.sleep(time.Minute)
		require.Empty(t, c.crs())
	})
}

// TestInvalidKeepsLease: a new process knows the CRs of a MachineHealthCheck whose spec has become invalid, and
// keeps the lease for them (spec M3.4, M10.3).
func TestInvalidKeepsLease(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &c.references()[0] })
		c.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(time.Minute)
		require.Len(t, c.crs(), 1)
		m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) {
			mhc.Spec.MaxUnhealthy = (*v1beta1.IntOrString)(new(intstr.FromString("many")))
		})
		m.sleep(inTime)
		c.leader().die(c.ctx)
		c.replicas = nil
		m.sleep(time.Minute)
		require.NotNil(t, c.server.Get(leases, leaseKey("worker-0")))
		c.setReady("worker-0", corev1.ConditionTrue)
		m.sleep(inTime)
		require.Empty(t, c.crs(), "it has recovered")
	})
}
