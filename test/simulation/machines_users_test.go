// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// event is something that others do with Machines.
func (m *machineAPI) event() {
	if name := m.anyAsked(); name != "" && m.chance(10) {
		m.moveAway(name)
		return
	}
	switch n := m.random.IntN(100); {
	case n < 40:
		if name := m.anyMachine(); name != "" {
			m.machineEvent(name)
		}
	case n < 70:
		if name := m.anyMHC(); name != "" {
			m.mhcEvent(name)
		}
	case n < 78:
		m.createMHC(oneOf(m.cluster, "east", "north", "west"))
	case n < 84:
		m.setEvent(oneOf(m.cluster, m.sets...))
	case n < 90:
		m.leaderEvent()
	case n < 94:
		m.gateEvent()
	case n < 96:
		if name := m.anyMachine(); name != "" {
			m.refuseChanges(name)
		}
	default:
		if node := m.anyNode(); node != "" {
			m.setReady(node, corev1.ConditionUnknown)
		}
	}
}

// anyAsked returns the name of a Machine that the consumer works on, empty if there is none.
func (m *machineAPI) anyAsked() string {
	for _, machine := range m.server.List(m.gvr()) {
		if _, asked := machine.GetAnnotations()[v1beta1.AnnotationExternalRemediation]; asked {
			return machine.GetName()
		}
	}
	return ""
}

// moveAway moves a Machine to another pool and lets it fail. The MachineHealthCheck that selected it before may
// no longer remediate it.
func (m *machineAPI) moveAway(name string) {
	m.changeMachine("user", name, func(machine *unstructured.Unstructured) { setEntry(machine, "labels", "pool", "c") })
	m.setStatus(name, func(status map[string]any) { status["phase"] = "Failed" })
}

// refuseChanges makes a Machine fail, or lose its Node, while a webhook denies that Machines are deleted or
// annotated: that is tried again, and comes late.
func (m *machineAPI) refuseChanges(name string) {
	request, d := oneOf(m.cluster, "delete machines", "patch machines"), oneOf(m.cluster, 5*time.Second, 30*time.Second, 5*time.Minute)
	m.deny(request, true)
	m.disturb("denied change of a Machine", d+recovery)
	if node := nodeOf(m.machine(name)); node != "" && m.chance(50) {
		m.deleteNode(node)
	} else {
		m.setStatus(name, func(status map[string]any) { status["phase"] = "Failed" })
	}
	m.sleep(d)
	m.deny(request, false)
}

// machineEvent is something that happens to a Machine.
func (m *machineAPI) machineEvent(name string) {
	toggle := func(key string) {
		m.changeMachine("user", name, func(machine *unstructured.Unstructured) {
			keys := machine.GetAnnotations()
			if keys == nil {
				keys = map[string]string{}
			}
			if _, set := keys[key]; set {
				delete(keys, key)
			} else {
				keys[key] = ""
			}
			machine.SetAnnotations(keys)
		})
	}
	switch n := m.random.IntN(20); {
	case n < 5:
		m.changeMachine("user", name, func(machine *unstructured.Unstructured) {
			setEntry(machine, "labels", "pool", oneOf(m.cluster, "a", "b"))
		})
	case n < 7:
		toggle(v1beta1.AnnotationSkipRemediation)
	case n < 8:
		toggle(v1beta1.AnnotationPaused)
	case n < 9:
		toggle(v1beta1.AnnotationExternalRemediation)
	case n < 14:
		m.setStatus(name, func(status map[string]any) { status["phase"] = "Failed" })
	case n < 16:
		m.log("somebody deletes Machine %s", name)
		m.server.Delete("user", m.gvr(), machineKey(name))
	case n < 17:
		if other := m.anyMachine(); nodeOf(m.machine(other)) != "" {
			node := nodeOf(m.machine(other))
			m.setStatus(name, func(status map[string]any) { status["nodeRef"] = map[string]any{"kind": "Node", "name": node} })
		}
	case n < 18:
		m.changeMachine("user", name, func(machine *unstructured.Unstructured) { machine.SetOwnerReferences(nil) })
	default:
		if node := nodeOf(m.machine(name)); node != "" {
			m.deleteNode(node)
		}
	}
}

// setEvent is something that happens to an owner of Machines.
func (m *machineAPI) setEvent(set *machineSet) {
	switch n := m.random.IntN(10); {
	case n < 3 && set.role == "worker":
		set.replicas = m.random.IntN(5)
	case n < 4 && set.role == "worker":
		m.log("the owner %s is gone", set.name)
		set.gone = true
		orphaned := m.chance(50)
		for _, machine := range m.server.List(m.gvr()) {
			if owner := metav1.GetControllerOf(machine); owner == nil || owner.UID != set.uid {
				continue
			}
			if orphaned {
				m.changeMachine("garbage-collector", machine.GetName(), func(machine *unstructured.Unstructured) { machine.SetOwnerReferences(nil) })
			} else {
				m.server.Delete("garbage-collector", m.gvr(), machineKey(machine.GetName()))
			}
		}
	case n < 7 && set.gone:
		m.sets = append(m.sets, &machineSet{name: set.name, role: set.role, uid: set.uid + "x", replicas: 2})
		set.gone, set.replicas = true, 0
	}
}

// otherLeader is the lease of another controller of MachineHealthChecks.
var otherLeader = memapi.Key{Namespace: "elsewhere", Name: "cluster-api-provider-healthcheck-leader"}

// leaderEvent has another controller of MachineHealthChecks lead, or stop.
func (m *machineAPI) leaderEvent() {
	if m.server.Get(leases, otherLeader) != nil && m.chance(70) {
		m.log("the other leader is gone")
		m.server.Delete("other", leases, otherLeader)
		m.disturb("other controller", 8*time.Second)
		return
	}
	m.otherLeads(oneOf(m.cluster, int32(5), 60, 300))
}

// otherLeads has another controller of MachineHealthChecks lead for a number of seconds.
func (m *machineAPI) otherLeads(term int32) {
	key, now := otherLeader, metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("other"), AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: &term},
	}
	m.log("another controller leads for %d s", term)
	m.server.Delete("other", leases, key)
	_, _ = m.server.Create("other", leases, from(lease)) // It was deleted.
	m.disturb("other controller", time.Duration(term)*time.Second+8*time.Second)
}

// gateEvent creates or deletes the feature gate that turns the other controller off.
func (m *machineAPI) gateEvent() {
	if !m.gated {
		return
	}
	if m.chance(50) {
		m.enableGate()
		return
	}
	m.log("the feature gate is off")
	m.server.Modify("admin", gates, memapi.Key{Name: "cluster"}, func(object *unstructured.Unstructured) {
		versions := []any{gateVersion("4.20", true), gateVersion("4.21", false)}
		_ = unstructured.SetNestedSlice(object.Object, versions[m.random.IntN(2):], "status", "featureGates")
	})
	m.disturb("feature gate", 8*time.Second)
}

func gateVersion(version string, enabled bool) map[string]any {
	list := []any{map[string]any{"name": "SomethingElse"}}
	if enabled {
		list = append(list, map[string]any{"name": "MachineAPIOperatorDisableMachineHealthCheckController"})
	}
	return map[string]any{"version": version, "enabled": list}
}

// enableGate turns the other controller off, where the platform has feature gates.
func (m *machineAPI) enableGate() {
	if !m.gated {
		return
	}
	key := memapi.Key{Name: "cluster"}
	if m.server.Get(gates, key) == nil {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": gates.GroupVersion().String(), "kind": "FeatureGate", "metadata": map[string]any{"name": "cluster"}}}
		_, _ = m.server.Create("admin", gates, object) // There was none.
	}
	m.server.Modify("admin", gates, key, func(object *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(object.Object, []any{gateVersion("4.20", true), gateVersion("4.21", true)}, "status", "featureGates")
	})
	m.disturb("feature gate", 8*time.Second)
}
