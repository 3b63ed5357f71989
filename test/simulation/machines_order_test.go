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

// TestAnnotatedMachineKeepsTheOrder: of two MachineHealthChecks that would delete a Machine, the first by
// name does, also if a user has asked for an external remediation before it failed (spec M7.4).
func TestAnnotatedMachineKeepsTheOrder(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("north", "a", asItIs)
		m.addMHC("west", "a", asItIs)
		m.maintain("worker-0")
		m.changeMachine("user", machine, func(machine *unstructured.Unstructured) {
			setEntry(machine, "annotations", v1beta1.AnnotationExternalRemediation, "")
		})
		m.fail(machine)
		m.sleep(inTime)
		require.Equal(t, v1alpha1.DecidedLeaseTaken, m.decision("north", machine))
		require.Equal(t, v1beta1.DecidedOtherHealthCheck, m.decision("west", machine))
	})
}

// TestFirstOfTheAwaitedGoesOn: a NodeHealthCheck remediates the control plane node that comes first of
// those that are waited for, also if it has another candidate, which has to wait (spec M13.1).
func TestFirstOfTheAwaitedGoesOn(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		set := m.newSet("masters", "master")
		first := m.addMachine(set, "a", "master-0")
		m.addMachine(set, "b", "master-2")
		for _, node := range []string{"master-1", "master-3", "master-4", "master-5", "master-6"} { // Enough for a quorum.
			m.addMachine(set, "a", node)
		}
		m.addMHC("east", "b", func(mhc *v1beta1.MachineHealthCheck) { // It finds out that a Node is gone.
			mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
		})
		m.addNHC("blue")
		m.fates[m.machine(first).GetUID()].lingers = time.Hour
		m.sleep(inTime) // Its Node was there before, as far as timestamps tell.
		m.server.Delete("user", m.gvr(), machineKey(first))
		m.deleteNode("master-2")
		m.setReady("master-0", corev1.ConditionUnknown)
		m.setReady("master-1", corev1.ConditionUnknown)
		m.sleep(time.Minute)
		crs := m.crs()
		require.Len(t, crs, 1)
		require.Equal(t, "master-0", crs[0].Node)
	})
}
