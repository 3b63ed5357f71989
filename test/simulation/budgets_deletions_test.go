// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestDeletedMachineCounts: a Machine that a MachineHealthCheck has deleted counts although it is gone, also for the next
// leader, until its replacement is Healthy, for at most 30 minutes (spec B3.2). One that a user has deleted does not.
func TestDeletedMachineCounts(t *testing.T) {
	t.Parallel()
	withBudget(t, 1, func(t *testing.T, m *machineAPI) {
		m.changeBudget("amber", func(spec *nhcv1alpha1.RemediationBudgetSpec) {
			spec.NodeSelector, spec.MachineSelector = nil, &nhcv1alpha1.BudgetMachineSelector{Namespace: machineNamespace}
		})
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.NodeStartupTimeout = new("0") })
		set := m.newSet("workers", "worker")
		set.replicas = 3
		first, second, third := m.addMachine(set, "a", "worker-0"), m.addMachine(set, "a", "worker-1"), m.addMachine(set, "a", "worker-2")
		m.sleep(inTime)
		remediating := func() int32 { return *m.budget("amber").Status.RemediatingNodes }
		set.gone = true // Nothing replaces deleted Machines.

		m.server.Delete("user", m.gvr(), machineKey(third))
		m.sleep(time.Minute)
		require.Nil(t, m.machine(third))
		require.EqualValues(t, 0, remediating(), "it is no remediation")

		m.fail(first)
		m.sleep(time.Minute)
		require.Nil(t, m.machine(first))
		m.fail(second)
		m.sleep(time.Minute)
		require.EqualValues(t, 1, remediating())
		require.Equal(t, v1alpha1.DecidedBudgetExhausted, m.decision("east", second))
		m.replaceLeader()
		m.sleep(25 * time.Minute)
		require.EqualValues(t, 1, remediating())
		require.False(t, m.deleting(second))
		m.sleep(5 * time.Minute)
		require.True(t, m.deleting(second), "30 minutes")
	})
}
