// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// succeed has the leader die, and the standby lead.
func (c *cluster) succeed() {
	c.leader().die(c.ctx)
	c.replicas = c.replicas[1:]
	c.elect()
}

// TestStandbyKnowsPauses: the watches of a standby would lag. When it leads, it begins nothing that users have forbidden
// (spec 22.5).
func TestStandbyKnowsPauses(t *testing.T) {
	t.Parallel()
	withBudgetOf(t, machineAPIs[:1], 1, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		c.addNHC("blue")
		c.createNode("worker-0", corev1.ConditionTrue)
		c.createNode("worker-1", corev1.ConditionTrue)
		c.boot()
		c.sleep(time.Minute)
		c.beginLag(nhcs, 40*time.Second)
		c.leader().client.Delay(nhcs, 0) // Only the standby lags.
		c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"maintenance"} })
		c.setReady("worker-1", corev1.ConditionUnknown)
		c.succeed()
		c.sleep(time.Minute)
		require.Empty(t, c.crs())
	})
}

// TestStandbyCountsDeletions: a Machine that the leader has deleted, and that nothing replaces, counts when another process
// leads that ran at that time already (spec B3.2).
func TestStandbyCountsDeletions(t *testing.T) {
	t.Parallel()
	withBudget(t, 1, func(t *testing.T, m *machineAPI) {
		m.changeBudget("amber", func(spec *nhcv1alpha1.RemediationBudgetSpec) {
			spec.NodeSelector, spec.MachineSelector = nil, &nhcv1alpha1.BudgetMachineSelector{Namespace: machineNamespace}
		})
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.NodeStartupTimeout = new("0") })
		set := m.newSet("workers", "worker")
		set.gone = true // Nothing replaces deleted Machines.
		first, second := m.addMachine(set, "a", "worker-0"), m.addMachine(set, "a", "worker-1")
		m.boot()
		m.sleep(inTime)
		m.fail(first)
		m.sleep(time.Minute)
		require.Nil(t, m.machine(first))
		m.fail(second)
		m.sleep(time.Minute)
		require.Equal(t, v1alpha1.DecidedBudgetExhausted, m.decision("east", second))
		m.succeed()
		m.sleep(time.Minute)
		require.False(t, m.deleting(second))
		require.EqualValues(t, 1, *m.budget("amber").Status.RemediatingNodes)
	})
}
