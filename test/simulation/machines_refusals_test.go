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
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/test/memapi"
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

// TestFirstByNameWorks: of several MachineHealthChecks that select a Machine, the first by name works, also if it is
// paused. One that only replaces terminating Machines keeps no other from it (spec M7.4).
func TestFirstByNameWorks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first func(*v1beta1.MachineHealthCheck)
		works bool
	}{
		"it is paused": {first: func(mhc *v1beta1.MachineHealthCheck) {
			mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
		}},
		"it only replaces terminating Machines": {works: true, first: func(mhc *v1beta1.MachineHealthCheck) {
			mhc.Spec.UnhealthyConditions = []v1beta1.UnhealthyCondition{{Type: "Terminating", Status: corev1.ConditionTrue, Timeout: "0s"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.addMHC("all", "a", tc.first)
				m.addMHC("another", "a", asItIs)
				m.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(time.Minute)
				require.Equal(t, tc.works, m.deleting(machine), "M7.4: %s", m.decision("another", machine))
				m.server.Delete("user", mhcs, machineKey("all"))
				m.sleep(inTime)
				require.True(t, m.deleting(machine), "M7.4: it is the first now")
			})
		})
	}
}

// TestUpgradeUnread: a new process that cannot read ClusterVersions begins nothing: an upgrade may be under way (spec M9.1,
// P5). It deleted Machines in the middle of one.
func TestUpgradeUnread(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		c.server.Install("admin", memapi.Resource{GroupVersionResource: clusterVersions, Kind: "ClusterVersion"})
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", asItIs)
		m.sleep(time.Minute)
		c.loseLeader()
		c.failLists(clusterVersions)
		m.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(2 * time.Minute)
		require.False(t, m.deleting(machine))
		require.Equal(t, v1alpha1.DecidedClusterUpgrading, m.decision("east", machine))
		c.deny("list "+clusterVersions.Resource, false)
		m.sleep(2 * time.Minute)
		require.True(t, m.deleting(machine))
	})
}

// TestRecoveryDuringTheLastLook: a Node recovers after it was read live, while the read of its Machine goes on. The watch
// has shown that by then, so the Machine stays (spec M8.4). It was deleted.
func TestRecoveryDuringTheLastLook(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", asItIs)
		m.slowRequests("get "+m.gvr().Resource, 1500*time.Millisecond)
		m.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(31 * time.Second)
		m.setReady("worker-0", corev1.ConditionTrue)
		m.sleep(time.Minute)
		require.False(t, m.deleting(machine))
	})
}
