// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// inTime is how long anything takes that waits for no delay (spec M19.1).
const inTime = 2 * time.Second

// withMachines runs the controller in a cluster with Machines in which only that happens what the
// test does, and checks the rules meanwhile.
func withMachines(t *testing.T, test func(t *testing.T, m *machineAPI)) {
	t.Helper()
	withMachinesOf(t, machineAPIs, test)
}

// withMachinesOf does so with the Machines of each of these APIs.
func withMachinesOf(t *testing.T, apis []*apiOfMachines, test func(t *testing.T, m *machineAPI)) {
	t.Helper()
	for _, api := range apis {
		t.Run(api.name, func(t *testing.T) {
			t.Parallel()
			withMachinesOfOne(t, api, test)
		})
	}
}

func withMachinesOfOne(t *testing.T, api *apiOfMachines, test func(t *testing.T, m *machineAPI)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, log := countingContext(t)
		c := emptyCluster(ctx, t, 1, api)
		c.synced = log
		defer c.shutDown()
		defer c.reportBroken()
		c.machines.reliable, c.machines.idle = true, true
		c.machines.enableGate()
		c.elect()
		c.sleep(time.Minute)
		test(t, c.machines)
	})
}

// addMHC creates a MachineHealthCheck that deletes the Machines of a pool, or all, whose Nodes are not
// Ready.
func (m *machineAPI) addMHC(name, pool string, change func(*v1beta1.MachineHealthCheck)) {
	mhc := &v1beta1.MachineHealthCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: v1beta1.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: machineNamespace, Name: name},
		Spec:       v1beta1.MachineHealthCheckSpec{UnhealthyConditions: []v1beta1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: "30s"}}},
	}
	if pool != "" {
		mhc.Spec.Selector.MatchLabels = map[string]string{"pool": pool}
	}
	change(mhc)
	for key, value := range m.api.annotations {
		metav1.SetMetaDataAnnotation(&mhc.ObjectMeta, key, value)
	}
	_, err := m.server.Create("user", mhcs, from(mhc))
	require.NoError(m.t, err)
}

func asItIs(*v1beta1.MachineHealthCheck) {}

// addMachine creates a Machine of a pool, which names a Node if one is given.
func (m *machineAPI) addMachine(set *machineSet, pool, node string) string {
	name := m.createMachine(set)
	m.fates[m.machine(name).GetUID()] = &fate{node: node}
	m.changeMachine("user", name, func(machine *unstructured.Unstructured) { setEntry(machine, "labels", "pool", pool) })
	if node != "" {
		m.join(name, node)
	}
	return name
}

func (m *machineAPI) fail(name string) {
	m.setStatus(name, func(status map[string]any) { status["phase"] = "Failed" })
}

// deleting reports whether a Machine is being deleted or gone.
func (m *machineAPI) deleting(name string) bool {
	machine := m.machine(name)
	return machine == nil || machine.GetDeletionTimestamp() != nil
}

// decision returns the reason of the decision about a Machine.
func (m *machineAPI) decision(check, machine string) v1alpha1.DecisionReason {
	status := m.mhc(check).Status
	for i := range status.UnhealthyMachines {
		if status.UnhealthyMachines[i].Name == machine {
			return status.UnhealthyMachines[i].Decision.Reason
		}
	}
	return ""
}

// TestReplacedNodeUnseen: while the watch of Nodes is late, live reads show that the Node of a Machine was replaced by a
// healthy one, and garbage collection deletes the lease that was taken for the old one. It is not taken again and again
// until the watch shows that, too (spec P3, M8.4).
func TestReplacedNodeUnseen(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		m.addMHC("east", "a", asItIs)
		m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.sleep(time.Minute)
		m.beginLag(nodes, 25*time.Second)
		m.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(20 * time.Second)
		m.server.Delete("cloud", nodes, memapi.Key{Name: "worker-0"})
		m.createNode("worker-0", corev1.ConditionTrue)
		before := len(m.server.Requests(0))
		for range 300 {
			m.sleep(100 * time.Millisecond)
			m.collectGarbage()
		}
		taken := 0
		for _, request := range m.server.Requests(before) {
			if request.Resource == leases && request.Verb == "create" && request.Name == leaseKey("worker-0").Name {
				taken++
			}
		}
		require.Positive(t, taken)
		require.Less(t, taken, 15)
		require.Len(t, m.machineNames(), 1)
		m.endLag()
		m.sleep(time.Minute)
	})
}

// TestAmbiguityEnds: a Machine that waits because another Machine names the same Node goes on when
// that ends, also if no MachineHealthCheck selects the other one (spec M5.4, P2).
func TestAmbiguityEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(m *machineAPI, other string){
		"the other is being deleted": func(m *machineAPI, other string) { m.server.Delete("user", m.gvr(), machineKey(other)) },
		"the other is gone": func(m *machineAPI, other string) {
			m.changeMachine("user", other, func(machine *unstructured.Unstructured) { machine.SetFinalizers(nil) })
			m.server.Delete("user", m.gvr(), machineKey(other))
		},
		"the other names another Node": func(m *machineAPI, other string) {
			m.setStatus(other, func(status map[string]any) { status["nodeRef"] = map[string]any{"kind": "Node", "name": "worker-1"} })
		},
		"the other names none": func(m *machineAPI, other string) {
			m.setStatus(other, func(status map[string]any) { delete(status, "nodeRef") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				set := m.newSet("workers", "worker")
				failed, other := m.addMachine(set, "a", "worker-0"), m.addMachine(set, "b", "worker-0")
				m.addMHC("east", "a", asItIs)
				m.fail(failed)
				m.sleep(time.Minute)
				require.Equal(t, v1beta1.DecidedAmbiguousNode, m.decision("east", failed))
				require.False(t, m.deleting(failed))
				end(m, other)
				m.sleep(inTime)
				require.True(t, m.deleting(failed), "M5.4: nothing is in the way any more")
			})
		})
	}
}

// TestFormerKindIsFound: a process that starts after the template was changed to another kind finds the
// remediation object of the former kind without any status: no second one is created, and it is deleted at the end (spec
// 6.8, P8, P9, M12.5, M16.3). Status lists the former kind until then.
func TestFormerKindIsFound(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		former, present := &m.kinds[0], &m.kinds[1]
		templates := m.references()
		next := slices.IndexFunc(templates, func(ref corev1.ObjectReference) bool { return ref.Kind == present.kind+"Template" })
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &templates[0] })
		m.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(30*time.Second + inTime)
		require.NotNil(t, m.server.Get(former.crs(), machineKey(machine)))

		m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &templates[next] })
		m.sleep(inTime)
		m.loseLeader()
		m.server.Modify("user", mhcs, machineKey("east"), func(mhc *unstructured.Unstructured) { unstructured.RemoveNestedField(mhc.Object, "status") })
		m.elect()
		m.sleep(10 * time.Minute)
		require.NotNil(t, m.server.Get(former.crs(), machineKey(machine)))
		require.Nil(t, m.server.Get(present.crs(), machineKey(machine)), "the remediation goes on")
		require.Equal(t, v1alpha1.DecidedStepRunning, m.decision("east", machine))
		kinds := func() (kinds []string) {
			for _, listed := range m.mhc("east").Status.RemediationKinds {
				kinds = append(kinds, listed.Kind)
			}
			return kinds
		}
		require.ElementsMatch(t, []string{former.kind, present.kind}, kinds())

		m.heal("worker-0")
		m.sleep(2 * inTime)
		require.Nil(t, m.server.Get(former.crs(), machineKey(machine)), "M12.5: it is deleted")
		require.Equal(t, []string{present.kind}, kinds())
	})
}

// TestUnselectedRecovers: a remediation of a Machine that the MachineHealthCheck does not select any more ends
// once its Node has recovered, although nothing else happens, also without the lease of the Node (spec M12.5, 14.8).
func TestUnselectedRecovers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(m *machineAPI){
		"as it is":          func(*machineAPI) {},
		"without its lease": func(m *machineAPI) { m.server.Delete("user", leases, leaseKey("worker-0")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &m.references()[0] })
				m.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(30*time.Second + inTime)
				require.Len(t, m.crs(), 1)
				change(m)
				m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.Selector.MatchLabels["pool"] = "b" })
				m.sleep(10 * time.Second)
				require.Len(t, m.crs(), 1)
				m.heal("worker-0")
				m.sleep(inTime)
				require.Empty(t, m.crs())
			})
		})
	}
}

// dropCheck removes the reference of a CR to its MachineHealthCheck.
func dropCheck(cr *unstructured.Unstructured) {
	cr.SetOwnerReferences(slices.DeleteFunc(cr.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.Kind == v1beta1.Kind }))
}

// TestRemediationObjectInTheWay: a remediation object of another owner keeps the Machine waiting. If the API
// server does not take a remediation object, the controller tries again (spec M8.2, M12.2). Random runs
// seldom reach these cases.
func TestRemediationObjectInTheWay(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		kind := &m.kinds[0]
		template := m.references()[0]
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &template })
		foreign := &unstructured.Unstructured{}
		foreign.SetGroupVersionKind(kind.crs().GroupVersion().WithKind(kind.kind))
		foreign.SetNamespace(machineNamespace)
		foreign.SetName(machine)
		_, err := m.server.Create("user", kind.crs(), foreign)
		require.NoError(t, err)
		m.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(30*time.Second + inTime)
		require.Equal(t, v1alpha1.DecidedForeignRemediation, m.decision("east", machine))

		m.disturb("denied creation", time.Minute)
		m.deny("create "+kind.crs().Resource, true)
		m.server.Delete("user", kind.crs(), machineKey(machine))
		m.sleep(inTime)
		require.Equal(t, v1alpha1.DecidedCreateFailed, m.decision("east", machine))
		require.Nil(t, m.server.Get(kind.crs(), machineKey(machine)))

		m.deny("create "+kind.crs().Resource, false)
		m.sleep(time.Minute)
		require.NotNil(t, m.server.Get(kind.crs(), machineKey(machine)))
		require.Equal(t, v1alpha1.DecidedStepRunning, m.decision("east", machine))
	})
}

// replaceLeader has the leader die and another process follow.
func (m *machineAPI) replaceLeader() {
	m.loseLeader()
	m.elect()
	m.sleep(inTime)
}

// TestFailedUnseen: a Machine has failed, and the watch does not show that yet. It is not deleted because of
// its Node: its deletion counts as a round of its owner (spec M8.4, M14.4).
func TestFailedUnseen(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		c := m.cluster
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("east", "a", asItIs)
		m.setReady("worker-0", corev1.ConditionUnknown)
		m.sleep(20 * time.Second)
		c.beginLag(m.gvr(), 20*time.Second)
		m.fail(machine)
		m.sleep(12 * time.Second)
		require.False(t, m.deleting(machine))
		require.Equal(t, v1alpha1.DecidedRecovering, m.decision("east", machine))
		c.endLag()
		m.sleep(20 * time.Second)
		require.True(t, m.deleting(machine))
		require.Positive(t, c.judge.Checked()["M14.2"])
	})
}

// TestRoundOfOneSync: Machines of one owner that are deleted by one sync are one round of the back-off. What it makes then
// lives for the first delay, also if another process leads (spec M14.3, M14.4).
func TestRoundOfOneSync(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"one process": false, "another process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				set := m.newSet("workers", "worker")
				var names []string
				for range 10 {
					names = append(names, m.addMachine(set, "a", ""))
				}
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) {
					mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
				})
				m.sleep(time.Minute)
				for _, name := range names {
					m.fail(name)
				}
				m.sleep(time.Minute)
				m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) { delete(mhc.Annotations, v1beta1.AnnotationPaused) })
				m.sleep(inTime)
				for _, name := range names {
					require.True(t, m.deleting(name), "M14.3: ten made together go together")
				}
				if restart {
					m.replaceLeader()
				}
				next := m.addMachine(set, "a", "")
				m.fail(next)
				m.sleep(backOff.Base - 2*time.Second)
				require.False(t, m.deleting(next), "M14.2")
				require.Equal(t, v1beta1.DecidedBackOff, m.decision("east", next))
				m.sleep(2*time.Second + inTime)
				require.True(t, m.deleting(next), "M14.3: they are one round")
			})
		})
	}
}

// TestOutageOfMachines: four of ten Machines are silent, and three may be. When the first is back, the others may be
// booting: they get their timeout once more. One that has failed boots no more (spec M7.6).
func TestOutageOfMachines(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"one process": false, "another process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				c, set := m.cluster, m.newSet("workers", "worker")
				var machines []string
				for i := range 10 {
					machines = append(machines, m.addMachine(set, "a", fmt.Sprintf("worker-%d", i)))
				}
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) {
					mhc.Spec.UnhealthyConditions[0].Timeout, mhc.Spec.MaxUnhealthy = "5m", new(v1beta1.IntOrString(intstr.FromString("30%")))
				})
				m.sleep(time.Minute)
				for i := range 4 {
					c.setReady(fmt.Sprintf("worker-%d", i), corev1.ConditionUnknown)
				}
				m.fail(machines[3])
				m.sleep(time.Hour)
				require.Equal(t, v1alpha1.DecidedGateClosed, m.decision("east", machines[1]))
				c.setReady("worker-0", corev1.ConditionTrue)
				m.sleep(2 * inTime)
				require.True(t, m.deleting(machines[3]), "it has failed")
				if restart {
					c.loseLeader()
					c.elect()
				}
				m.sleep(4 * time.Minute)
				require.Equal(t, v1alpha1.DecidedGateClosed, m.decision("east", machines[1]))
				c.setReady("worker-1", corev1.ConditionTrue)
				m.sleep(time.Minute)
				require.False(t, m.deleting(machines[1]), "it has booted")
				require.True(t, m.deleting(machines[2]), "it has not")
			})
		})
	}
}
