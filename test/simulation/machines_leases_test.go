// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// TestLeaseOfAGoneCheck: the lease of a Node is kept until its Machine is gone, also if the
// MachineHealthCheck that has deleted it is gone before, or is about Machines of another API (spec M10.3, M15.2).
func TestLeaseOfAGoneCheck(t *testing.T) {
	t.Parallel()
	remove := func(m *machineAPI) { m.server.Delete("user", mhcs, machineKey("east")) }
	other := map[string]string{v1beta1.MachineAPIOpenShift: v1beta1.MachineAPICluster, v1beta1.MachineAPICluster: v1beta1.MachineAPIOpenShift}
	for name, end := range map[string]func(m *machineAPI){
		"M5.2 it is about Machines of another API": func(m *machineAPI) {
			m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) {
				mhc.Annotations[v1beta1.AnnotationMachineAPI] = other[m.gvr().Group]
			})
			m.sleep(10 * time.Minute)
			m.replaceLeader()
		},
		"the same process":                           remove,
		"another process":                            func(m *machineAPI) { remove(m); m.replaceLeader() },
		"another process, which reads leases first":  func(m *machineAPI) { remove(m); m.replaceUnread(mhcs, 20*time.Second) },
		"another process, which reads Machines last": func(m *machineAPI) { remove(m); m.replaceUnread(m.gvr(), 20*time.Second) },
		"a process that was not active at first": func(m *machineAPI) {
			m.otherLeads(60)
			m.sleep(10 * time.Second)
			remove(m)
			m.replaceLeader()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.fates[m.machine(machine).GetUID()].lingers = time.Hour
				m.addMHC("east", "a", asItIs)
				m.fail(machine)
				m.sleep(inTime)
				require.True(t, m.deleting(machine))
				end(m)
				for m.machine(machine) != nil {
					lease := m.lease("worker-0")
					require.NotNil(t, lease, "M10.3: it is kept")
					require.True(t, rules.LeaseValid(lease, time.Now()), "M10.3: it is renewed")
					m.sleep(time.Minute)
				}
				m.sleep(inTime)
				require.Nil(t, m.lease("worker-0"), "M10.3: then it is released")
			})
		})
	}
}

// TestDeletionOfUnselected: a Machine that is being deleted stays in the status of the MachineHealthCheck that has deleted it,
// and keeps the lease of its Node, also if it is no longer selected (spec M10.3).
func TestDeletionOfUnselected(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.fates[m.machine(machine).GetUID()].lingers = 10 * time.Minute
		m.addMHC("east", "a", asItIs)
		m.fail(machine)
		m.sleep(inTime)
		m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.Selector.MatchLabels["pool"] = "b" })
		m.sleep(5 * time.Minute)
		require.Equal(t, v1beta1.DecidedMachineDeleting, m.decision("east", machine))
		require.True(t, rules.LeaseValid(m.lease("worker-0"), time.Now()))
		m.sleep(6 * time.Minute)
		require.Nil(t, m.machine(machine))
		require.Nil(t, m.lease("worker-0"))
	})
}

// TestNodeUnseen: a Machine whose Node the watch does not show yet is not deleted before it does: the lease of
// the Node comes first (spec M10.3).
func TestNodeUnseen(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		m.addMHC("east", "a", asItIs)
		m.beginLag(nodes, 20*time.Second)
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.fates[m.machine(machine).GetUID()].lingers = time.Hour
		m.fail(machine)
		m.sleep(10 * time.Second)
		require.False(t, m.deleting(machine))
		require.Equal(t, v1alpha1.DecidedRecovering, m.decision("east", machine))
		m.endLag()
		m.sleep(20 * time.Second)
		require.True(t, m.deleting(machine))
		require.NotNil(t, m.lease("worker-0"))
	})
}

// TestNodeReturnsAfterItsCheckIsGone: a Node that comes back while its Machine is still being remediated
// is left alone, although no lease stands for that: the Node was gone when it began (spec M15.2).
func TestNodeReturnsAfterItsCheckIsGone(t *testing.T) {
	t.Parallel()
	remediated := func(machine *unstructured.Unstructured) {
		unstructured.RemoveNestedField(machine.Object, "metadata", "annotations", v1beta1.AnnotationExternalRemediation)
	}
	deleted := func(machine *unstructured.Unstructured) { machine.SetFinalizers(nil) }
	for name, tc := range map[string]struct {
		external, othersLead bool
		end                  func(machine *unstructured.Unstructured)
	}{
		"external remediation":                               {external: true, end: remediated},
		"external remediation, and another controller leads": {external: true, othersLead: true, end: remediated},
		"deletion":                               {end: deleted},
		"deletion, and another controller leads": {othersLead: true, end: deleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apis := machineAPIs
			if tc.external {
				apis = handingOver
			}
			withMachinesOf(t, apis, func(t *testing.T, m *machineAPI) {
				c := m.cluster
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.fates[m.machine(machine).GetUID()].lingers = 24 * time.Hour
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) {
					if tc.external {
						mhc.Annotations = map[string]string{v1beta1.AnnotationRemediationStrategy: v1beta1.StrategyExternalBaremetal}
					}
				})
				c.addNHC("blue")
				c.deleteNode("worker-0")
				m.sleep(inTime) // Its Machine is unhealthy therefore.
				require.Nil(t, m.lease("worker-0"), "M10.3: leases are for Nodes")
				m.server.Delete("user", mhcs, machineKey("east"))
				m.sleep(inTime)
				if tc.othersLead {
					m.otherLeads(3600)
				}
				c.createNode("worker-0", corev1.ConditionUnknown)
				m.sleep(10 * time.Minute)
				require.Empty(t, c.crs(), "M15.2")
				require.Equal(t, v1alpha1.DecidedMachineHealthCheck, c.nhc("blue").Status.UnhealthyNodes[0].Decision.Reason)
				m.changeMachine("provider", machine, tc.end)
				m.sleep(inTime)
				require.Len(t, c.crs(), 1, "P2: nothing is in the way any more")
			})
		})
	}
}

// TestLeaseOfANodeThatNoMachineNames: the lease that a MachineHealthCheck has left is released as soon as the Machine
// does not name the Node any more (spec M10.3).
func TestLeaseOfANodeThatNoMachineNames(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.fates[m.machine(machine).GetUID()].lingers = time.Hour
		m.addMHC("east", "a", asItIs)
		m.fail(machine)
		m.sleep(inTime)
		m.server.Delete("user", mhcs, machineKey("east"))
		m.sleep(inTime)
		require.NotNil(t, m.lease("worker-0"), "M10.3: it is kept")
		m.setStatus(machine, func(status map[string]any) { delete(status, "nodeRef") })
		m.sleep(inTime)
		require.Nil(t, m.lease("worker-0"), "M10.3: it is released")
	})
}

// TestLeaseOfAnotherOperator: the lease of another holder is left alone and respected, also that of the upstream
// operator's own controller of MachineHealthChecks, whose holder has no namespace (spec M4.3, 14.3).
func TestLeaseOfAnotherOperator(t *testing.T) {
	t.Parallel()
	for name, holder := range map[string]string{
		"F6 MachineHealthCheck-foo without a namespace": "MachineHealthCheck-foo",
		"one that is there under this name":             "MachineHealthCheck-east",
		"another operator":                              "other-foo",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.addMHC("east", "a", asItIs)
				now := metav1.NewMicroTime(time.Now())
				_, err := m.server.Create("other", leases, from(&coordinationv1.Lease{
					TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
					ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseKey("worker-0").Name},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: new(int32(600))},
				}))
				require.NoError(t, err)
				m.fail(machine)
				m.sleep(9 * time.Minute)
				require.NotNil(t, m.lease("worker-0"), "M4.3: it is left alone")
				require.Equal(t, holder, *m.lease("worker-0").Spec.HolderIdentity)
				require.Equal(t, v1alpha1.DecidedLeaseTaken, m.decision("east", machine), "M4.3: it is respected")
				m.sleep(2 * time.Minute)
				require.True(t, m.deleting(machine), "14.3: until it has run out")
			})
		})
	}
}
