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
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// TestRemediationsUnread: a new process begins nothing for a Machine before it knows whether another
// MachineHealthCheck is at work on it (spec M7.4). It says so if it cannot find out, but not while it does.
func TestRemediationsUnread(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hide  func(c *cluster)
		after v1alpha1.DecisionReason
	}{
		"the list takes a while": {func(c *cluster) { c.slowDown(c.kinds[0].crs(), 5*time.Second) }, v1beta1.DecidedOtherHealthCheck},
		"lists fail":             {func(c *cluster) { c.failLists(c.kinds[0].crs()) }, v1alpha1.DecidedLeaseTaken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				c := m.cluster
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.addMHC("second", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &c.references()[0] })
				c.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(time.Minute)
				require.Len(t, c.crs(), 1)
				m.addMHC("first", "a", asItIs)
				m.sleep(time.Minute)
				require.Equal(t, v1beta1.DecidedOtherHealthCheck, m.decision("first", machine))
				before := m.mhc("first").ResourceVersion
				c.loseLeader()
				tc.hide(c)
				m.sleep(20 * time.Minute)
				require.False(t, m.deleting(machine), "the lease is kept while the remediation objects cannot be read")
				require.Equal(t, tc.after, m.decision("first", machine))
				require.Equal(t, tc.after != v1beta1.DecidedOtherHealthCheck, m.mhc("first").ResourceVersion != before, "status is written")
			})
		})
	}
}

// TestOwnRemediationsUnread: a lease is not released while it is not known whether there is a CR for its Node,
// also if no MachineHealthCheck selects the Machine any more (spec P5, M10.3).
func TestOwnRemediationsUnread(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &c.references()[0] })
		c.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(time.Minute)
		require.Len(t, c.crs(), 1)
		m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.Selector.MatchLabels["pool"] = "b" })
		m.sleep(inTime)
		require.NotNil(t, m.lease("worker-0"))
		c.loseLeader()
		c.failLists(c.kinds[0].crs())
		m.sleep(2 * time.Minute)
		require.NotNil(t, m.lease("worker-0"))
		c.deny("list "+c.kinds[0].crs().Resource, false)
		m.sleep(2 * time.Minute)
		require.True(t, rules.LeaseValid(m.lease("worker-0"), time.Now()), "it is renewed again")
		c.heal("worker-0")
		m.sleep(2 * inTime)
		require.Empty(t, c.crs())
		require.Nil(t, m.lease("worker-0"))
	})
}

// TestNodeHealthChecksUnread: a new process begins nothing for a control plane Machine before it has read the
// NodeHealthChecks: one of them may have a control plane node under remediation (spec M13.1).
func TestNodeHealthChecksUnread(t *testing.T) {
	t.Parallel()
	withMachinesOf(t, replacingControlPlane, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		set := m.newSet("masters", "master")
		failed := m.addMachine(set, "a", "master-0")
		for _, node := range []string{"master-1", "master-2", "master-3", "master-4"} { // Enough for a quorum without two.
			m.addMachine(set, "b", node)
		}
		m.addMHC("east", "a", asItIs)
		c.addNHC("blue")
		m.sleep(time.Minute)
		c.setReady("master-1", corev1.ConditionUnknown)
		m.sleep(inTime)
		require.Len(t, c.crs(), 1)
		c.replaceUnread(nhcs, 20*time.Second)
		m.fail(failed)
		m.sleep(15 * time.Second)
		require.False(t, m.deleting(failed), "nothing is known of NodeHealthChecks")
		m.sleep(15 * time.Second)
		require.False(t, m.deleting(failed))
		require.Equal(t, v1alpha1.DecidedControlPlaneBusy, m.decision("east", failed))
	})
}

// TestMachinesUnread: a node that belongs to a MachineHealthCheck belongs to it also while Machines cannot be
// read (spec M15.1).
func TestMachinesUnread(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(c *cluster){
		"by a new process": func(c *cluster) {
			c.replaceUnread(c.machines.gvr(), 5*time.Minute)
			c.slowDown(c.machines.gvr(), 5*time.Minute)
		},
		"for the watch cannot be opened again": func(c *cluster) {
			c.slowDown(c.machines.gvr(), 5*time.Minute)
			c.excused("watches end", 5*time.Minute)
			c.leader().client.EndWatches(c.machines.gvr(), false)
			c.sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				c := m.cluster
				m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) {
					mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
				})
				c.addNHC("blue")
				m.sleep(time.Minute)
				hide(c)
				c.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(2 * time.Minute)
				require.Empty(t, c.crs())
				entries := c.nhc("blue").Status.UnhealthyNodes
				require.Len(t, entries, 1)
				require.Equal(t, v1alpha1.DecidedMachineHealthCheck, entries[0].Decision.Reason, entries[0].Decision.Message)
			})
		})
	}
}

// TestMachinesUnreadIsSaid: while Machines cannot be read for another cause than a permission, status says so (spec M7.5).
func TestMachinesUnreadIsSaid(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", asItIs)
		m.sleep(time.Minute)
		m.loseLeader()
		m.failLists(m.gvr())
		m.sleep(time.Minute)
		condition := m.mhc("east").Status.Conditions[0]
		require.Equal(t, v1beta1.ReasonMachinesUnreadable, condition.Reason)
		require.Contains(t, condition.Message, "Remediation is not allowed, objects of kind Machine."+m.gvr().Group+" cannot be read: ")
		m.deny("list "+m.gvr().Resource, false)
		m.sleep(2 * time.Minute)
		require.Equal(t, corev1.ConditionTrue, m.mhc("east").Status.Conditions[0].Status)
	})
}

// TestMachineHealthChecksUnread: a new process begins nothing for a node that a RemediationBudget is about
// before it has read the MachineHealthChecks: what these have under remediation counts (spec B3.2).
func TestMachineHealthChecksUnread(t *testing.T) {
	t.Parallel()
	withBudget(t, 1, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { // With any other, 6.9 holds.
			mhc.Spec.UnhealthyConditions = []v1beta1.UnhealthyCondition{{Type: "Terminating", Status: corev1.ConditionTrue, Timeout: "30s"}}
			mhc.Spec.RemediationTemplate = &c.references()[0]
		})
		c.createNode("worker-1", corev1.ConditionTrue)
		c.changeNode("worker-1", func(node *unstructured.Unstructured) { setEntry(node, "labels", "alone", "") })
		c.addNHC("blue")
		c.server.Modify("user", nhcs, memapi.Key{Name: "blue"}, func(nhc *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedStringMap(nhc.Object, map[string]string{"alone": ""}, "spec", "selector", "matchLabels"))
		})
		c.changeNode("worker-0", func(node *unstructured.Unstructured) { setCondition(node, "Terminating", "True") })
		m.sleep(time.Minute)
		require.Len(t, c.crs(), 1)
		refused := func() string {
			entries := c.nhc("blue").Status.UnhealthyNodes
			require.Len(t, entries, 1)
			require.Equal(t, v1alpha1.DecidedBudgetExhausted, entries[0].Decision.Reason, entries[0].Decision.Message)
			return entries[0].Decision.Message
		}
		c.replaceUnread(mhcs, 20*time.Second)
		c.setReady("worker-1", corev1.ConditionUnknown)
		m.sleep(15 * time.Second)
		require.Len(t, c.crs(), 1)
		require.Equal(t, "the MachineHealthChecks have not been read yet", refused())
		m.sleep(15 * time.Second)
		require.Len(t, c.crs(), 1)
		require.Equal(t, "amber: 1 of at most 1 nodes are under remediation", refused())
	})
}

// TestNewLeaderCountsMachines: a new process counts what its predecessor has begun for a Machine, by the Node
// that it names, before the first sync of its MachineHealthCheck (spec B3.2).
func TestNewLeaderCountsMachines(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(m *machineAPI) schema.GroupVersionResource{
		"MachineHealthChecks come last": func(*machineAPI) schema.GroupVersionResource { return mhcs },
		"Machines come last":            (*machineAPI).gvr,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withBudget(t, 1, func(t *testing.T, m *machineAPI) {
				c := m.cluster
				c.changeBudget("amber", func(spec *nhcv1alpha1.RemediationBudgetSpec) {
					spec.NodeSelector, spec.MachineSelector = nil, &nhcv1alpha1.BudgetMachineSelector{Namespace: machineNamespace}
				})
				set := m.newSet("workers", "worker")
				first, second := m.addMachine(set, "a", "worker-0"), m.addMachine(set, "a", "worker-1")
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &c.references()[0] })
				m.sleep(inTime)
				m.fail(first)
				m.sleep(inTime)
				require.Len(t, c.crs(), 1)
				m.fail(second)
				m.sleep(inTime)
				require.Equal(t, v1alpha1.DecidedBudgetExhausted, m.decision("east", second))
				c.replaceUnread(last(m), 20*time.Second)
				m.sleep(time.Minute)
				require.Len(t, c.crs(), 1)
				require.Equal(t, v1alpha1.DecidedBudgetExhausted, m.decision("east", second))
			})
		})
	}
}

// replaceUnread has the leader die and another process follow, whose first list of a resource takes a while.
func (c *cluster) replaceUnread(gvr schema.GroupVersionResource, d time.Duration) {
	c.loseLeader()
	c.slowDownFirst(gvr, d)
	c.excused("unread", d)
	c.elect()
}

// loseLeader has the leader die. The next one is a new process.
func (c *cluster) loseLeader() {
	c.leader().die(c.ctx)
	c.replicas = nil
}

// failLists has lists of a resource fail from now on.
func (c *cluster) failLists(gvr schema.GroupVersionResource) {
	c.disturb("lists fail", 5*time.Minute)
	c.deny("list "+gvr.Resource, true)
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
		c.loseLeader()
		m.sleep(time.Minute)
		require.NotNil(t, c.server.Get(leases, leaseKey("worker-0")))
		c.setReady("worker-0", corev1.ConditionTrue)
		m.sleep(inTime)
		require.Empty(t, c.crs(), "it has recovered")
	})
}
