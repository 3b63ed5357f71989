// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// withBudget runs the controller in a cluster with Machines and RemediationBudget "amber", in which
// only that happens what the test does, and checks the rules meanwhile.
func withBudget(t *testing.T, maxConcurrent int32, test func(t *testing.T, m *machineAPI)) {
	t.Helper()
	withBudgetOf(t, machineAPIs, maxConcurrent, test)
}

// withBudgetOf does so with the Machines of each of these APIs.
func withBudgetOf(t *testing.T, apis []*apiOfMachines, maxConcurrent int32, test func(t *testing.T, m *machineAPI)) {
	t.Helper()
	for _, api := range apis {
		t.Run(api.name, func(t *testing.T) {
			t.Parallel()
			withBudgetOfOne(t, api, maxConcurrent, test)
		})
	}
}

func withBudgetOfOne(t *testing.T, api *apiOfMachines, maxConcurrent int32, test func(t *testing.T, m *machineAPI)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := emptyCluster(loggingContext(t), t, 2, api)
		defer c.shutDown()
		defer c.reportBroken()
		c.machines.reliable, c.machines.idle = true, true
		c.machines.enableGate()
		c.createBudget("amber")
		c.changeBudget("amber", func(spec *nhcv1alpha1.RemediationBudgetSpec) {
			*spec = nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(maxConcurrent))}
		})
		c.elect()
		c.sleep(time.Minute)
		test(t, c.machines)
	})
}

// addNHC creates a NodeHealthCheck that remediates all nodes whose condition Ready is Unknown.
func (c *cluster) addNHC(name string) {
	_, err := c.server.Create("user", nhcs, from(&v1alpha1.NodeHealthCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector:            selectorOf(""),
			UnhealthyConditions: []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: time.Second}}},
			MinHealthy:          new(intstr.FromInt32(0)), RemediationTemplate: &c.references()[0],
		},
	}))
	require.NoError(c.t, err)
}

// TestLongestFirst: two nodes wait for the same place. The node that has been unhealthy for longer gets it
// (spec B4.1).
func TestLongestFirst(t *testing.T) {
	t.Parallel()
	withBudget(t, 1, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		c.addNHC("blue")
		for _, name := range []string{"worker-1", "worker-2", "worker-0"} {
			c.createNode(name, corev1.ConditionTrue)
			c.sleep(inTime)
			c.setReady(name, corev1.ConditionUnknown)
			c.sleep(2 * time.Minute)
		}
		for _, next := range []string{"worker-1", "worker-2", "worker-0"} {
			crs := c.crs()
			require.Len(t, crs, 1)
			require.Equal(t, next, crs[0].Node)
			c.setReady(next, corev1.ConditionTrue)
			c.sleep(2 * inTime)
		}
	})
}

// TestRefusedByEtcdHoldsUpNoOther: a control plane Machine that etcd needs is tried again and again, and
// takes no place from those that follow it (spec B4.3). Status does not count it.
func TestRefusedByEtcdHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	withBudgetOf(t, replacingControlPlane, 1, func(t *testing.T, m *machineAPI) {
		master, worker := m.addMachine(m.newSet("masters", "master"), "a", "master-0"), m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", asItIs)
		m.fail(master)
		for range 20 {
			m.sleep(1300 * time.Millisecond)
		}
		require.Equal(t, v1alpha1.DecidedEtcdQuorum, m.decision("east", master))
		m.fail(worker)
		m.sleep(2 * inTime)
		require.True(t, m.deleting(worker), "B4.3: nothing else has the place")
		require.False(t, m.deleting(master))
	})
}

// TestExhaustedFollowsWhatComesLater: condition Exhausted leaves out a node that something else refuses,
// too, until that ends (spec B5.2).
func TestExhaustedFollowsWhatComesLater(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ begin, end func(c *cluster) }{
		"a lease": {
			func(c *cluster) {
				now := metav1.NewMicroTime(time.Now())
				_, err := c.server.Create(maintainer, leases, from(&coordinationv1.Lease{
					TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
					ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseKey("worker-0").Name},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(maintainer), AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: new(int32(3600))},
				}))
				require.NoError(c.t, err)
			},
			func(c *cluster) { c.server.Delete(maintainer, leases, leaseKey("worker-0")) },
		},
		"a foreign CR": {
			func(c *cluster) {
				object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": remediators.String(), "kind": c.kinds[0].kind, "metadata": map[string]any{
					"namespace": templateNamespace, "name": "worker-0",
				}}}
				_, err := c.server.Create("somebody", c.kinds[0].crs(), object)
				require.NoError(c.t, err)
			},
			func(c *cluster) {
				for _, cr := range c.crs() {
					c.server.Delete("somebody", c.of(cr).crs(), keyOf(cr))
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withBudget(t, 0, func(t *testing.T, m *machineAPI) {
				c := m.cluster
				tc.begin(c)
				c.createNode("worker-0", corev1.ConditionTrue)
				c.addNHC("blue")
				c.setReady("worker-0", corev1.ConditionUnknown)
				exhausted := func() bool {
					return meta.IsStatusConditionTrue(c.budget("amber").Status.Conditions, nhcv1alpha1.ConditionBudgetExhausted)
				}
				c.sleep(20 * time.Second)
				require.Equal(t, v1alpha1.DecidedBudgetExhausted, c.nhc("blue").Status.UnhealthyNodes[0].Decision.Reason)
				require.False(t, exhausted())
				tc.end(c)
				c.sleep(inTime)
				require.True(t, exhausted(), "only the budget is in the way now")
			})
		})
	}
}

// TestNeverJoined: of two Machines that have not joined in time, none is deleted where one may be not
// healthy. Time alone makes them unhealthy: no event says so (spec B3.3, B3.5).
func TestNeverJoined(t *testing.T) {
	t.Parallel()
	withBudget(t, 1, func(t *testing.T, m *machineAPI) {
		m.changeBudget("amber", func(spec *nhcv1alpha1.RemediationBudgetSpec) {
			*spec = nhcv1alpha1.RemediationBudgetSpec{MachineSelector: &nhcv1alpha1.BudgetMachineSelector{Namespace: machineNamespace}, MaxUnhealthy: new(intstr.FromInt32(1))}
		})
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.NodeStartupTimeout = new("2m") })
		set := m.newSet("workers", "worker")
		first, second := m.addMachine(set, "a", ""), m.addMachine(set, "a", "")
		unhealthy := func() int32 { return *m.budget("amber").Status.NotHealthyNodes }
		m.sleep(time.Minute)
		require.EqualValues(t, 0, unhealthy())
		m.sleep(2 * time.Minute) // Its provider has put off the end by writing its status.
		require.EqualValues(t, 2, unhealthy())
		for _, name := range []string{first, second} {
			require.False(t, m.deleting(name))
			require.Equal(t, v1alpha1.DecidedBudgetExhausted, m.decision("east", name))
		}
		m.addMachine(set, "b", "")
		m.sleep(inTime)
		require.EqualValues(t, 3, *m.budget("amber").Status.ObservedNodes, "B3.5: no MachineHealthCheck selects it")
	})
}

// TestWaitsForNothing: a MachineHealthCheck that is gone waits for no budget, also while one of its remediation
// objects is left. A MachineHealthCheck of another controller does not wait either (spec B4.1, B5.2, M3.5, M4.2).
func TestWaitsForNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(m *machineAPI){
		"it is gone":               func(m *machineAPI) { m.server.Delete("user", mhcs, machineKey("east")) },
		"another controller leads": func(m *machineAPI) { m.otherLeads(300) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withBudget(t, 1, func(t *testing.T, m *machineAPI) {
				c, kind := m.cluster, &m.kinds[0]
				set, template := m.newSet("workers", "worker"), m.references()[0]
				first, second := m.addMachine(set, "a", "worker-0"), m.addMachine(set, "a", "worker-1")
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &template })
				c.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(time.Minute)
				require.NotNil(t, m.server.Get(kind.crs(), machineKey(first)))
				m.server.Modify("remediator", kind.crs(), machineKey(first), func(object *unstructured.Unstructured) { object.SetFinalizers([]string{finalizer}) })
				c.setReady("worker-1", corev1.ConditionUnknown)
				m.sleep(time.Minute)
				require.Equal(t, v1alpha1.DecidedBudgetExhausted, m.decision("east", second))
				exhausted := func() bool {
					return meta.IsStatusConditionTrue(c.budget("amber").Status.Conditions, nhcv1alpha1.ConditionBudgetExhausted)
				}
				require.True(t, exhausted())
				c.changeBudget("amber", func(spec *nhcv1alpha1.RemediationBudgetSpec) { spec.MaxConcurrent = new(intstr.FromInt32(0)) })
				end(m)
				m.sleep(2 * inTime)
				require.NotNil(t, m.server.Get(kind.crs(), machineKey(first)), "its remediator is still at work")
				require.False(t, exhausted())
			})
		})
	}
}

// TestRestartForgetsNoBeginning: the last remediation has ended when the process does. The next process learns from the
// status of the budget when it began (spec B3.4).
func TestRestartForgetsNoBeginning(t *testing.T) {
	t.Parallel()
	withBudget(t, 1, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		c.changeBudget("amber", func(spec *nhcv1alpha1.RemediationBudgetSpec) {
			spec.MinInterval = &metav1.Duration{Duration: 10 * time.Minute}
		})
		c.addNHC("blue")
		for _, name := range []string{"worker-0", "worker-1"} {
			c.createNode(name, corev1.ConditionTrue)
		}
		c.sleep(2 * inTime)
		c.setReady("worker-0", corev1.ConditionUnknown)
		c.sleep(inTime)
		begun := c.crs()[0].Created
		c.setReady("worker-0", corev1.ConditionTrue)
		c.sleep(2 * inTime)
		require.Empty(t, c.crs())

		c.loseLeader()
		c.elect()
		c.setReady("worker-1", corev1.ConditionUnknown)
		c.sleep(9 * time.Minute)
		require.Empty(t, c.crs(), "B3.4: the interval is not over")
		c.sleep(time.Minute)
		require.Len(t, c.crs(), 1)
		require.GreaterOrEqual(t, c.crs()[0].Created.Sub(begun), 10*time.Minute)
	})
}

// TestStatusUnseen: a status that was written, and that the watch shows after half a minute, is replaced if it
// is not true any more (spec B5.2).
func TestStatusUnseen(t *testing.T) {
	t.Parallel()
	withBudget(t, 1, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		c.createNode("worker-0", corev1.ConditionTrue)
		c.sleep(2 * inTime)
		c.beginLag(budgets, 45*time.Second)
		c.setReady("worker-0", corev1.ConditionUnknown)
		c.sleep(inTime)
		require.EqualValues(t, 1, *c.budget("amber").Status.NotHealthyNodes)
		c.setReady("worker-0", corev1.ConditionTrue)
		c.sleep(time.Minute)
		c.endLag()
		c.sleep(2 * inTime)
		require.EqualValues(t, 0, *c.budget("amber").Status.NotHealthyNodes)
	})
}

// TestRemediatedMachineNamesAnotherNode: a remediation counts for the Node that the Machine names, also if
// its MachineHealthCheck does not select the Machine any more, and no lease leads to it (spec B3.2, B5.2).
func TestRemediatedMachineNamesAnotherNode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		apis   []*apiOfMachines
		change func(*v1beta1.MachineHealthCheck)
		begun  func(m *machineAPI, machine string) bool
	}{
		"it is being deleted": {machineAPIs, asItIs, (*machineAPI).deleting},
		"by its provider": {handingOver, func(mhc *v1beta1.MachineHealthCheck) {
			mhc.Annotations = map[string]string{v1beta1.AnnotationRemediationStrategy: v1beta1.StrategyExternalBaremetal}
		}, func(m *machineAPI, machine string) bool {
			_, asked := m.machine(machine).GetAnnotations()[v1beta1.AnnotationExternalRemediation]
			return asked
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withBudgetOf(t, tc.apis, 1, func(t *testing.T, m *machineAPI) {
				c := m.cluster
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.fates[m.machine(machine).GetUID()].lingers = time.Hour
				m.addMHC("east", "a", tc.change)
				c.createNode("worker-1", corev1.ConditionTrue)
				c.changeNode("worker-1", func(node *unstructured.Unstructured) { setEntry(node, "labels", "counts", "yes") })
				c.changeBudget("amber", func(spec *nhcv1alpha1.RemediationBudgetSpec) {
					spec.NodeSelector.MatchLabels = map[string]string{"counts": "yes"}
				})
				c.deleteNode("worker-0")
				c.sleep(2 * inTime)
				require.True(t, tc.begun(m, machine))
				require.Nil(t, m.lease("worker-0"), "M10.3: leases are for Nodes")
				m.changeMachine("user", machine, func(machine *unstructured.Unstructured) { setEntry(machine, "labels", "pool", "b") })
				c.sleep(2 * inTime)
				require.EqualValues(t, 0, *m.budget("amber").Status.RemediatingNodes, "it is for another Node")
				m.setStatus(machine, func(status map[string]any) { status["nodeRef"] = map[string]any{"kind": "Node", "name": "worker-1"} })
				c.sleep(2 * inTime)
				require.EqualValues(t, 1, *m.budget("amber").Status.RemediatingNodes, "P2: what has begun has not ended")
			})
		})
	}
}

// TestStopHoldsNextSteps: a budget that permits nothing holds the next step, and its CR if that vanishes. What runs goes
// on, and the step begins once the budget permits anything (spec B1.2).
func TestStopHoldsNextSteps(t *testing.T) {
	t.Parallel()
	withBudget(t, 1, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		permit := func(n int32) {
			c.changeBudget("amber", func(spec *nhcv1alpha1.RemediationBudgetSpec) { spec.MaxConcurrent = new(intstr.FromInt32(n)) })
			c.sleep(inTime)
		}
		c.addNHC("blue")
		c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.RemediationTemplate, spec.EscalatingRemediations = nil, []v1alpha1.EscalatingRemediation{
				{RemediationTemplate: c.references()[0], Order: 1, Timeout: metav1.Duration{Duration: time.Minute}},
				{RemediationTemplate: c.references()[1], Order: 2, Timeout: metav1.Duration{Duration: time.Hour}},
			}
		})
		c.createNode("worker-0", corev1.ConditionTrue)
		c.sleep(inTime)
		c.setReady("worker-0", corev1.ConditionUnknown)
		c.sleep(2 * inTime)
		require.Len(t, c.crs(), 1)

		held := func(why string) {
			t.Helper()
			c.sleep(3 * time.Minute)
			crs := c.crs()
			require.Len(t, crs, 1, why)
			require.False(t, crs[0].Marked, "what runs goes on")
			decision := c.nhc("blue").Status.UnhealthyNodes[0].Decision
			require.Equal(t, v1alpha1.DecisionRemediating, decision.Type)
			require.Equal(t, v1alpha1.DecidedBudgetExhausted, decision.Reason)
			require.Contains(t, decision.Message, "amber: no remediation may begin")
			require.True(t, meta.IsStatusConditionTrue(c.budget("amber").Status.Conditions, nhcv1alpha1.ConditionBudgetExhausted))
		}
		permit(0)
		held("the next step")
		permit(1)
		require.Len(t, c.crs(), 2, "it begins at once")
	})
}
